"""Manifests of packages: what they state is read, what they would run is refused."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from metadata_examples import with_value

from edgert.contract.formats import Evidence, choose_format
from edgert.contract.packages import KINFER, POLICY_PACKAGE
from edgert.errors import ContractError, EdgertError

ORDER = ["shoulder", "elbow", "gripper"]
MANIFEST: dict[str, Any] = {
    "format": "policy_package",
    "version": "1.0",
    "policy": {"name": "act", "source": {"class_path": "physicalai.policies.act.policy.ACT"}},
    "model": {"n_obs_steps": 1, "runner": {"type": "single_pass"}, "artifacts": {"model": "policy.onnx"}},
    "hardware": {
        "robots": [{"name": "main", "state": {"shape": [3], "order": ORDER}, "action": {"shape": [3], "order": ORDER}}]
    },
}


def evidence(manifest: dict[str, Any] | None = None, **changes: Any) -> Evidence:
    fields: dict[str, Any] = {
        "sidecars": {"manifest.json": MANIFEST if manifest is None else manifest},
        "inputs": {"state": (1, 3)},
        "outputs": {"action": (1, 3)},
    }
    return Evidence(model="/a/policy.onnx", metadata={}, **fields | changes)


changed = partial(with_value, MANIFEST)


def test_a_package_names_joints_and_leaves_the_rest() -> None:
    reading = POLICY_PACKAGE.read(evidence())
    assert reading.document == {
        "schema": 1, "joints": {"names": ORDER}, "action": {"scale": 1.0, "offset": 0.0},
    }  # fmt: skip
    assert set(reading.reasons) == {"inputs.state.terms", "joints.default_pos", "joints.kp", "joints.kd"}
    assert reading.sources["action.scale"] == "assumed: targets in rad"
    assert choose_format(evidence()) == ("policy_package", "manifest.json of format policy_package")


@pytest.mark.parametrize("name", ["manifest.toml", "package.yaml"])
def test_a_package_is_known_by_its_format(name: str) -> None:
    found = evidence(sidecars={name: MANIFEST, "other.json": {"format": "x"}})
    assert choose_format(found) == ("policy_package", f"{name} of format policy_package")
    assert POLICY_PACKAGE.read(found).source == name


def test_a_package_may_say_nothing() -> None:
    assert POLICY_PACKAGE.read(evidence({"format": "policy_package"})).document == {"schema": 1}


@pytest.mark.parametrize(
    ("manifest", "text"),
    [
        (
            changed("model", "inner", value=[{"deep": {"_target_": "os.system"}}]),
            "key 'model.inner.deep._target_' is wrong: found 'os.system', expected none: code of a package is never",
        ),
        (
            changed("model", "runner", value={"class_path": "os.system"}),
            "'model.runner.class_path' is wrong: found 'os.system', expected none: code of a package is never executed",
        ),
        (
            changed("model", "runner", value={"type": "action_chunking", "chunk_size": 50}),
            "key 'model.runner.type' is wrong: found 'action_chunking', expected single_pass",
        ),
        (
            changed("model", "preprocessors", value=[{"type": "normalize", "artifact": "stats.safetensors"}]),
            "key 'model.preprocessors' is wrong: found 'normalize' outside of the network, expected none. "
            "Export the policy with its normaliser inside",
        ),
        (
            changed("model", "artifacts", value={"model": "other.onnx"}),
            "key 'model.artifacts.model' is wrong: found 'other.onnx', expected policy.onnx. Name that file",
        ),
        (changed("hardware", "cameras", value=[{"name": "top"}]), "key 'hardware.cameras' is wrong"),
        (changed("hardware", "robots", value=[{}, {}]), "key 'hardware.robots' is wrong: found a list"),
        (changed("hardware", "robots", 0, "state", "order", value=ORDER[::-1]), "expected gripper, elbow, shoulder"),
        (changed("model", "n_obs_steps", value=2), "key 'model.n_obs_steps' is wrong: found 2"),
    ],
)  # fmt: skip
def test_what_would_run_outside_is_refused(manifest: dict[str, Any], text: str) -> None:
    with pytest.raises(ContractError) as caught:
        POLICY_PACKAGE.read(evidence(manifest))
    assert text in str(caught.value)


METADATA: dict[str, Any] = {"joint_names": ["a", "b"], "num_commands": 3, "carry_size": 4}


def kinfer(metadata: dict[str, Any] | None = None, **changes: Any) -> Evidence:
    fields: dict[str, Any] = {
        "sidecars": {"metadata.json": METADATA if metadata is None else metadata},
        "inputs": {"joint_angles": (2,), "gyroscope": (3,), "projected_gravity": (3,), "carry": (4,)},
        "outputs": {"out_0": (2,), "out_1": (4,)},
    }
    return Evidence(model="/a/step_fn.onnx", metadata={}, **fields | changes)


def test_the_inputs_of_kinfer_are_known_by_name() -> None:
    reading = KINFER.read(kinfer())
    assert reading.document == {
        "schema": 1,
        "joints": {"names": ["a", "b"]},
        "inputs": {"joint_angles": {"terms": ["joint_angle"]}, "gyroscope": {"terms": ["imu_ang_vel"]}},
        "action": {"output": "out_0", "scale": 1.0, "offset": 0.0},
        "recurrent": {"carry": "out_1"},
    }
    assert reading.reasons["inputs.projected_gravity.terms"] == (
        "kinfer does not say if it is a unit vector or in m/s²"
    )  # fmt: skip
    assert reading.notes == ("the carry begins at 0, which is assumed: init_fn.onnx is not run",)
    assert choose_format(kinfer()) == ("kinfer", "metadata.json with joint_names, carry_size")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"inputs": {"camera": (3,)}}, "input 'camera' is none of kinfer's: expected some of joint_angles"),
        ({"inputs": {}, "outputs": {"carry": (4,)}}, "is not the step of a kinfer package: found 0 inputs and outputs"),
        ({"metadata": {"joint_names": "a", "carry_size": 1}}, "key 'joint_names' is wrong: found text 'a'"),
    ],
)
def test_what_is_no_step_is_refused(changes: dict[str, Any], text: str) -> None:
    metadata = changes.pop("metadata", None)
    with pytest.raises(ContractError) as caught:
        KINFER.read(kinfer(metadata, **changes))
    assert text in str(caught.value)


SOME = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just([]) | st.just({})
PATHS: list[tuple[Any, ...]] = [
    *((key,) for key in MANIFEST), ("model", "runner"), ("model", "artifacts"), ("model", "preprocessors"),
    ("hardware", "robots"), ("hardware", "robots", 0, "state"), ("hardware", "robots", 0, "action"),
]  # fmt: skip


@given(st.sampled_from(PATHS), SOME | st.lists(SOME, max_size=4))
def test_nothing_in_a_manifest_ends_in_a_traceback(path: tuple[Any, ...], value: Any) -> None:
    with suppress(EdgertError):
        POLICY_PACKAGE.read(evidence(changed(*path, value=value)))


@given(st.sampled_from(list(METADATA)), SOME | st.lists(SOME, max_size=4))
def test_nothing_in_metadata_ends_in_a_traceback(key: str, value: Any) -> None:
    with suppress(EdgertError):
        KINFER.read(kinfer(METADATA | {key: value}))
