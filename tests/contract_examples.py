"""Contracts over three joints, numbers to feed them with, and hypothesis strategies for documents."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
from hypothesis import strategies as st

from edgert.contract import Contract, RobotState, parse_contract
from edgert.contract.observe import Observer, make_term_inputs
from edgert.contract.senses import HeightScan, Picture
from edgert.contract.spec import COMMAND_KEYS, ActionKind
from edgert.contract.terms import TermInputs

JOINTS = ("hip", "knee", "ankle")
SENSORS = {
    "imu_ang_vel": 3,
    "imu_lin_acc": 3,
    "imu_quat": 4,
    "left_foot": 1,
    "right_foot": 1,
    "back_gyro": 3,
    "ee_pos": 3,
}
POINTS = ("com", "site:imu")

TERMS_OF_EVERY_KIND: dict[str, dict[str, Any]] = {
    "base_lin_vel": {"name": "base_lin_vel"},
    "base_lin_vel com": {"name": "base_lin_vel", "point": "com"},
    "base_lin_vel site": {"name": "base_lin_vel", "point": "site:imu"},
    "base_lin_vel world": {"name": "base_lin_vel", "frame": "world"},
    "base_lin_vel world site": {"name": "base_lin_vel", "frame": "world", "point": "site:imu"},
    "base_ang_vel": {"name": "base_ang_vel"},
    "base_ang_vel world": {"name": "base_ang_vel", "frame": "world"},
    "projected_gravity": {"name": "projected_gravity"},
    "base_pos": {"name": "base_pos"},
    "base_height": {"name": "base_height"},
    "base_quat": {"name": "base_quat"},
    "base_quat xyzw": {"name": "base_quat", "order": "xyzw"},
    "base_euler": {"name": "base_euler"},
    "joint_pos": {"name": "joint_pos"},
    "joint_angle": {"name": "joint_angle"},
    "joint_torque": {"name": "joint_torque"},
    "joint_vel": {"name": "joint_vel"},
    "joint_sin": {"name": "joint_sin"},
    "joint_cos": {"name": "joint_cos"},
    "ee_pos": {"name": "ee_pos"},
    "goal_pos": {"name": "goal_pos"},
    "last_action": {"name": "last_action"},
    "last_action clipped": {"name": "last_action", "stage": "clipped"},
    "last_action target": {"name": "last_action", "stage": "target"},
    "constant": {"name": "constant", "value": [0.5, -2.0]},
    "step_count": {"name": "step_count"},
    "command": {"name": "command"},
    "sin_phase": {"name": "sin_phase"},
    "cos_phase": {"name": "cos_phase"},
    "phase": {"name": "phase"},
    "imu_ang_vel": {"name": "imu_ang_vel"},
    "imu_ang_vel of two": {"name": "imu_ang_vel", "sensors": ["back_gyro", "imu_ang_vel"]},
    "imu_lin_acc": {"name": "imu_lin_acc"},
    "imu_quat": {"name": "imu_quat"},
    "imu_quat xyzw": {"name": "imu_quat", "order": "xyzw"},
    "foot_contact": {"name": "foot_contact", "sensors": ["left_foot", "right_foot"], "threshold": 0.25},
    "foot_contact of one": {"name": "foot_contact", "sensors": ["right_foot"]},
    "height_scan": {"name": "height_scan", "size": [0.4, 0.2], "resolution": 0.2},
    "height_scan yx": {
        "name": "height_scan",
        "size": [0.5, 0.0],
        "resolution": 0.25,
        "ordering": "yx",
        "height_offset": 0.0,
        "above": 0.0,
        "miss": 2.0,
        "body": "shin",
    },
    "camera rgb": {"name": "camera", "camera": "front", "image": "rgb", "height": 2, "width": 3},
    "camera depth": {"name": "camera", "camera": "front", "image": "depth", "height": 3, "width": 2},
}
WIDTHS = {
    **dict.fromkeys(TERMS_OF_EVERY_KIND, 3),
    **{"last_action": 2, "sin_phase": 2, "cos_phase": 2, "phase": 4, "foot_contact": 2, "foot_contact of one": 1},
    **{"imu_ang_vel of two": 6, "imu_quat": 4, "imu_quat xyzw": 4, "base_quat": 4, "base_quat xyzw": 4},
    **{"last_action clipped": 2, "last_action target": 2, "constant": 2, "step_count": 1, "base_height": 1},
    **{"height_scan": 6, "height_scan yx": 3, "camera rgb": 18, "camera depth": 6},
}
"""Numbers in each of them, for three joints, two of them driven, and two phases."""
SENSES = {
    HeightScan(size=(0.4, 0.2), resolution=0.2): 6,
    HeightScan(size=(0.5, 0.0), resolution=0.25, ordering="yx", height_offset=0.0, above=0.0, miss=2.0, body="shin"): 3,
    Picture(camera="front", image="rgb", height=2, width=3): 18,
    Picture(camera="front", image="depth", height=3, width=2): 6,
}
"""What they see, and how many numbers each has."""


def document(*terms: Any, **changes: Any) -> dict[str, Any]:
    """A valid document, of the given terms or of every kind under a twist; each call makes a new one."""
    goal = {"name": "goal_pos"}
    twist = {"kind": "twist", "vx_m_s": [-0.5, 1.0]}
    terms = terms or tuple(term for term in TERMS_OF_EVERY_KIND.values() if term != goal)
    aimed = any(term == "goal_pos" or (isinstance(term, dict) and term.get("name") == "goal_pos") for term in terms)
    base = {
        "schema": 1,
        "robot": "leg",
        "control_hz": 50.0,
        "joints": {
            "names": list(JOINTS),
            "default_pos": [0.1, -0.2, 0.3],
            "kp": 20.0,
            "kd": dict.fromkeys(JOINTS, 0.5),
        },
        "inputs": {"obs": {"terms": list(terms)}},
        "action": {"output": "actions", "joints": ["ankle", "hip"], "scale": [0.5, 0.25], "clip": [-8.0, 8.0]},
        "command": {"kind": "position", "x_m": [-0.5, 1.0]} if aimed else twist,
        "phase": {"hz": 1.5, "offsets_rad": [0.0, 3.0], "still_rad": 3.0, "still_below": 0.05},
    }
    return copy.deepcopy(base | changes)


def contract(*terms: Any, **changes: Any) -> Contract:
    """The contract of `document`."""
    return parse_contract(document(*terms, **changes), "test")


def numbers(nworld: int = 5, seed: int = 0) -> dict[str, Any]:
    """Random float64 arrays by the name of the field, sensor, point or input they stand for; quaternions are unit."""
    rng = np.random.default_rng(seed)

    def some(width: int, scale: float = 2.0) -> np.ndarray:
        return rng.normal(0.0, scale, (nworld, width))

    def unit() -> np.ndarray:
        quat = some(4)
        return quat / np.linalg.norm(quat, axis=1, keepdims=True)

    return {
        "joint_pos": some(3),
        "joint_vel": some(3, 10.0),
        "joint_torque": some(3, 10.0),
        "base_pos": some(3),
        "base_quat": unit(),
        "base_lin_vel": some(3),
        "base_ang_vel": some(3),
        "sensors": {name: unit() if name == "imu_quat" else some(width, 0.5) for name, width in SENSORS.items()},
        "senses": {sense: some(width) for sense, width in SENSES.items()},
        "points": {"com": rng.normal(0.0, 0.1, 3), "site:imu": rng.normal(0.0, 0.1, (nworld, 3))},
        "command": some(3),
        "last_action": some(2),
        "phase_rad": rng.uniform(0.0, 2.0 * np.pi, nworld),
        "step": rng.integers(0, 1000, nworld),
    }


def term_inputs(
    spec: Contract, values: dict[str, Any], xp: Any = np, convert: Callable[[np.ndarray], Any] = np.asarray
) -> TermInputs:
    """The numbers as the inputs of the terms of a contract, in the arrays that `convert` makes."""
    given = {
        name: {key: convert(array) for key, array in value.items()} if isinstance(value, dict) else convert(value)
        for name, value in values.items()
    }
    own = {name: given.pop(name) for name in ("command", "last_action", "phase_rad", "step")}
    return make_term_inputs(spec, RobotState(joint_names=JOINTS, **given), xp=xp, **own)


# Strategies. Documents are valid by construction, so that a refusal is a failure of the test.

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=8)
REALS = st.floats(-1e6, 1e6)


def pairs(lo: float = -1e6, hi: float = 1e6) -> st.SearchStrategy[list[float]]:
    """[low, high] with low <= high."""
    return st.lists(st.floats(lo, hi), min_size=2, max_size=2).map(sorted)


@st.composite
def terms(draw: st.DrawFn, name: str | None = None) -> dict[str, Any]:
    """One term of any kind with random scale, offset, clip and index."""
    kind = name or draw(st.sampled_from(sorted(TERMS_OF_EVERY_KIND)))
    term = copy.deepcopy(TERMS_OF_EVERY_KIND[kind])
    width = WIDTHS[kind]
    camera = term["name"] == "camera"  # whose numbers go by channel
    if draw(st.booleans()) and not camera:
        term["index"] = draw(st.lists(st.integers(0, width - 1), min_size=1, max_size=2 * width))
        width = len(term["index"])
    for key in ("scale", "offset"):
        one = st.floats(-100.0, 100.0)
        listed = width if not camera else 3 if term["image"] == "rgb" else 1
        value = draw(st.none() | one | st.lists(one, min_size=listed, max_size=listed))
        if value is not None:
            term[key] = value
    if draw(st.booleans()):
        term["clip"] = draw(pairs(-10.0, 10.0))
    if draw(st.booleans()):
        term["dim"] = width
    return term


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Valid documents with random values in every field and random optional parts."""
    result = document(*draw(st.lists(terms(), min_size=1, max_size=6)))
    result["robot"] = draw(st.text(st.characters(codec="utf-8"), max_size=8))
    result["control_hz"] = draw(st.floats(0.01, 10_000.0) | st.integers(1, 10_000))
    joints = draw(st.lists(NAMES, min_size=3, max_size=3, unique=True))

    def by_joint(names: list[str], values: st.SearchStrategy[float]) -> Any:
        form = draw(st.sampled_from(("number", "list", "table")))
        listed = draw(st.lists(values, min_size=len(names), max_size=len(names)))
        return listed[0] if form == "number" else listed if form == "list" else dict(zip(names, listed, strict=True))

    driven = draw(st.permutations(joints))[:2]
    action = {"output": draw(NAMES), "joints": driven, "scale": by_joint(driven, REALS)}
    kinds = draw(st.lists(st.sampled_from(get_args(ActionKind)), min_size=2, max_size=2))
    if "relative_position" in kinds:  # whose target is no function of the action
        for term in result["inputs"]["obs"]["terms"]:
            term.pop("stage", None)
    free = {name for name, kind in zip(driven, kinds, strict=True) if kind in ("velocity", "torque")}
    stiff = by_joint(joints, st.floats(0.001, 1e4))
    result["joints"] = {
        "names": joints,
        "default_pos": by_joint(joints, REALS),
        "kp": {name: 0.0 if name in free else draw(st.floats(0.001, 1e4)) for name in joints} if free else stiff,
        "kd": by_joint(joints, st.floats(0.0, 1e4)),
    }
    action["kind"] = kinds[0] if len(set(kinds)) == 1 and draw(st.booleans()) else kinds
    action["offset"] = draw(st.just("default") | st.just(by_joint(driven, REALS)))
    for key in ("clip", "target_clip"):
        listed = draw(st.lists(pairs(), min_size=2, max_size=2))
        value = draw(st.sampled_from((None, listed[0], listed, dict(zip(driven, listed, strict=True)))))
        if value is not None:
            action[key] = value
    result["action"] = action
    kind = result["command"]["kind"]
    keys = COMMAND_KEYS[kind]
    result["command"] = {"kind": kind} | {key: draw(pairs()) for key in draw(st.sets(st.sampled_from(keys)))}
    result["phase"] = {"hz": draw(st.floats(0.01, 100.0)), "offsets_rad": draw(st.lists(REALS, min_size=2, max_size=2))}
    if draw(st.booleans()):
        result["phase"] |= {"still_rad": draw(REALS), "still_below": draw(st.floats(0.0, 10.0))}
    return result


def observed(spec: Contract, inputs: TermInputs) -> Any:
    """The input "obs" by the generic terms, in the library and dtype of the inputs."""
    return Observer(spec, "obs", inputs.last_action)(inputs)
