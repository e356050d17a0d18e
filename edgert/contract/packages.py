"""Packages: an ONNX file with a manifest beside it that says what belongs together, but hardly what the numbers mean.

`policy_package` manifests (LeRobot, physicalai) name joints, cameras and what happens around the network; what they
would run or apply outside of it is refused, never imported. kinfer's `metadata.json`, unpacked beside `step_fn.onnx`,
names joints; the names of the inputs are its contract.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

from edgert.contract.foreign import LOOSE, evident, given, inner, observed, only_file
from edgert.contract.formats import Evidence, Reading
from edgert.contract.input_document import terms_key
from edgert.errors import ContractError
from edgert.tables import Table, show, type_name

_MANIFEST: Final = "manifest.json"
_FORMAT: Final = "policy_package"
_METADATA: Final = "metadata.json"
_RUNNERS: Final = ("single_pass",)
_KINFER_INPUTS: Final = {
    "joint_angles": "joint_angle",
    "joint_angular_velocities": "joint_vel",
    "gyroscope": "imu_ang_vel",
    "accelerometer": "imu_lin_acc",
}
_KINFER_OPEN: Final = {
    "projected_gravity": "kinfer does not say if it is a unit vector or in m/s²",
    "command": "kinfer does not say what its commands are",
    "time": "kinfer counts seconds: step_count, scaled by the control period",
}
_CARRY: Final = "carry"


class PolicyPackage:
    """The reader of `policy_package` manifests; see `edgert.contract.formats`."""

    files = (_MANIFEST, "manifest.toml", *LOOSE)
    generic = False

    def evidence(self, found: Evidence) -> str:
        """See `Format.evidence`."""
        names = evident(found, _holds, (_MANIFEST,))
        return f"{', '.join(names)} of format {_FORMAT}" if names else ""

    def read(self, found: Evidence) -> Reading:
        """See `Format.read`."""
        file = only_file(found, evident(found, _holds, (_MANIFEST,)), _FORMAT)
        table = Table(found.sidecars[file], file)
        model = inner(table, "model")
        _check_artifacts(found, model)
        runner = inner(model, "runner")
        _refuse_code(model)
        if given(runner, "type") and runner.text("type") not in _RUNNERS:
            runner.fail("type", found=show(runner.raw("type")), expected=", ".join(_RUNNERS))
        for key in ("preprocessors", "postprocessors"):
            steps = model.raw(key, None) or []
            if not isinstance(steps, list) or steps:
                names = [step.get("type", "?") if isinstance(step, Mapping) else "?" for step in _listed(steps)]
                model.fail(
                    key,
                    found=f"{', '.join(map(show, names))} outside of the network",
                    expected="none",
                    hint="Export the policy with its normaliser inside",
                )
        hardware = inner(table, "hardware")
        if hardware.raw("cameras", None):
            hardware.fail("cameras", found="cameras", expected="none: a policy that sees is not supported")
        joints = _order(hardware)
        document: dict[str, Any] = {"schema": 1}
        reasons = {terms_key(name): f"{file} does not say it" for name in observed(found)} | dict.fromkeys(
            ("joints.default_pos", "joints.kp", "joints.kd"), f"{file} does not hold it"
        )
        if joints:
            document |= {"joints": {"names": joints}, "action": {"scale": 1.0, "offset": 0.0}}
        steps = model.raw("n_obs_steps", 1)
        if steps != 1:
            model.fail("n_obs_steps", found=show(steps), expected="1: state it as history in policy.toml")
        sources = {"action.scale": "assumed: targets in rad", "action.offset": "assumed: targets in rad"}
        note = f"{file} names no units: its actions are taken for joint targets in rad"
        return Reading(
            document=document,
            source=file,
            sources=sources if joints else {},
            notes=(note,) if joints else (),
            reasons=reasons,
        )


class Kinfer:
    """The reader of kinfer's packages, unpacked; see `edgert.contract.formats`."""

    files = (_METADATA,)
    generic = False

    def evidence(self, found: Evidence) -> str:
        """See `Format.evidence`."""
        keys = [key for key in ("joint_names", "carry_size") if key in found.sidecars.get(_METADATA, {})]
        return f"{_METADATA} with {', '.join(keys)}" if len(keys) == 2 else ""

    def read(self, found: Evidence) -> Reading:
        """See `Format.read`."""
        table = Table(found.sidecars[_METADATA], _METADATA)
        joints = list(table.names("joint_names"))
        inputs: dict[str, Any] = {}
        reasons = dict.fromkeys(("joints.default_pos", "joints.kp", "joints.kd"), f"{_METADATA} does not hold it")
        for name in found.inputs:
            if name in _KINFER_INPUTS:
                inputs[name] = {"terms": [_KINFER_INPUTS[name]]}
            elif name in _KINFER_OPEN:
                reasons[terms_key(name)] = _KINFER_OPEN[name]
            elif name != _CARRY:
                raise ContractError(
                    f"policy {found.model}: input '{name}' is none of kinfer's",
                    expected="some of " + ", ".join((*_KINFER_INPUTS, *_KINFER_OPEN, _CARRY)),
                    hint="init_fn.onnx is not the policy: name step_fn.onnx" if not found.inputs else "",
                )
        outputs = list(found.outputs)
        if not found.inputs or len(outputs) != 2:
            raise ContractError(
                f"policy {found.model} is not the step of a kinfer package",
                found=f"{len(found.inputs)} inputs and outputs {', '.join(outputs)}",
                expected="step_fn.onnx, which gives targets and a carry",
            )
        document: dict[str, Any] = {
            "schema": 1,
            "joints": {"names": joints},
            "inputs": inputs,
            "action": {"output": outputs[0], "scale": 1.0, "offset": 0.0},
        }
        if _CARRY in found.inputs:
            document["recurrent"] = {_CARRY: outputs[1]}
        sources = dict.fromkeys(("action.scale", "action.offset"), "kinfer: joint targets")
        notes = ("the carry begins at 0, which is assumed: init_fn.onnx is not run",)
        return Reading(document=document, source=_METADATA, sources=sources, notes=notes, reasons=reasons)


POLICY_PACKAGE: Final = PolicyPackage()
KINFER: Final = Kinfer()


def _listed(steps: object) -> list[Any]:
    return steps if isinstance(steps, list) else [steps]


def _check_artifacts(found: Evidence, model: Table) -> None:
    """Refuse a package whose network is another file."""
    artifacts = inner(model, "artifacts")
    names = [artifacts.text(key) for key in artifacts.data]
    own = PurePath(found.model).name
    if names and own not in [PurePath(name).name for name in names]:
        artifacts.fail(
            str(next(iter(artifacts.data))), found=", ".join(map(show, names)), expected=own, hint="Name that file"
        )


def _refuse_code(component: Table) -> None:
    """Refuse a component that is a class to import, or has one inside."""
    for key in ("class_path", "_target_"):
        if given(component, key):
            component.fail(key, found=show(component.raw(key)), expected="none: code of a package is never executed")
    for key, value in component.data.items():
        parts = value if isinstance(value, list) else [value]
        for part in parts:
            if isinstance(part, Mapping):
                _refuse_code(Table(part, component.where, component.key(key)))


def _holds(document: Mapping[str, Any]) -> bool:
    return document.get("format") == _FORMAT


def _order(hardware: Table) -> list[str]:
    """The joints of the only robot, in the order of its actions; empty where they have no names."""
    robots = hardware.raw("robots", None)
    if robots is None:
        return []
    if not isinstance(robots, list) or len(robots) != 1 or not isinstance(robots[0], Mapping):
        hardware.fail("robots", found=f"{type_name(robots)} {show(robots)}", expected="one robot")
    robot = Table(robots[0], hardware.where, hardware.key("robots[0]"))
    orders = [
        list(inner(robot, key).names("order")) for key in ("action", "state") if given(inner(robot, key), "order")
    ]
    if len(orders) == 2 and orders[0] != orders[1]:
        robot.fail("action", found=", ".join(orders[0]), expected=", ".join(orders[1]) + ", as its state")
    return orders[0] if orders else []
