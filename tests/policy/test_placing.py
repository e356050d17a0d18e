"""A policy on the provider that was asked for or is fastest, proven against the CPU; on devices that tests make."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ixrt_stand_in import Chip
from support import linear_model, quadruped_document, save

from edgert.device import Device, find_device
from edgert.errors import DeviceError, UnknownNameError, UnsupportedError
from edgert.policy import LoadedPolicy, OnnxPolicy, load_policy
from edgert.policy.agreement import TICKS, TOLERANCES, Agreement, compare
from edgert.policy.calibration import Candidate, entry, keep, recall
from edgert.policy.engine import Node, Placement
from edgert.policy.engine.providers import provider
from edgert.policy.placing import AUTO, Placed, place
from edgert.policy.where import Where, on_chips

BOTH = Device(
    name="iluvatar:0",
    chip="MRC-V100-0x18",
    vendor="Iluvatar",
    memory_bytes=None,
    providers=("IxRT", "CPUExecutionProvider"),
    physics=(),
)
"""A chip with two providers, of which the tests stand in for one."""


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedPolicy:
    weight = np.random.default_rng(0).normal(size=(50, 12))
    return load_policy(save(linear_model(weight=weight, document=quadruped_document()), tmp_path / "policy.onnx"))


def placed(loaded: LoadedPolicy, **how: Any) -> Placed:
    def open_on(device: Device, placement: Placement) -> OnnxPolicy:
        return OnnxPolicy(loaded, device, placement=placement)

    policy, where = place(open_on, BOTH, Placement(**how), loaded.file.sha256)
    assert all((array == 0).all() for array in (*policy.obs.values(), *policy.out.values()))  # as if it never acted
    policy.close()
    return where


def test_what_was_named_is_compared_with_the_cpu(chip: Chip, loaded: LoadedPolicy) -> None:
    where = placed(loaded, provider="ixrt")
    assert where.agreement is not None
    assert 0.0 <= where.agreement.error < 1e-5
    report = where.report()
    assert report["agreement"] == {
        "error": where.agreement.error, "tolerance": 1e-3, "output": "actions", "ticks": TICKS
    }  # fmt: skip
    assert (report["nodes"], report["cpu_nodes"], report["candidates"]) == ([], [], [])
    assert where.notes() == [
        f"provider ixrt differs from the CPU by {where.agreement.error:.1e} of the outputs' scale, 1e-03 tolerated",
        "provider ixrt: not yet run on hardware by edgert's own tests",
    ]
    on_cpu = placed(loaded, provider="cpu")
    assert (on_cpu.agreement, on_cpu.notes()) == (None, [])
    assert on_cpu.report()["nodes"] == [{"provider": "CPUExecutionProvider", "count": 1}]


def test_what_computes_something_else_is_refused(chip: Chip, loaded: LoadedPolicy, tmp_path: Path) -> None:
    path = save(linear_model(weight=np.eye(50, 12), document=quadruped_document()), tmp_path / "other.onnx")
    other = load_policy(path)

    def open_on(device: Device, placement: Placement) -> OnnxPolicy:
        return OnnxPolicy(loaded if device == BOTH else other, device, placement=placement)

    with pytest.raises(DeviceError) as caught:
        place(open_on, BOTH, Placement(), loaded.file.sha256)
    assert "IxRT computes something else than the CPU for policy" in str(caught.value)
    assert "of the scale of output 'actions', expected at most 1e-03" in str(caught.value)
    assert chip.allocated == {}
    with pytest.raises(
        DeviceError, match=r"no provider of iluvatar:0 .* found ixrt: it differs from the CPU by .*; cpu:"
    ):
        place(open_on, BOTH, Placement(provider=AUTO), loaded.file.sha256)


def test_auto_takes_the_fastest_and_says_what_it_measured(chip: Chip, loaded: LoadedPolicy) -> None:
    where = placed(loaded, provider=AUTO)
    first, second = where.candidates
    assert {first.provider, second.provider} == {"ixrt", "cpu"}
    assert first.median_us <= second.median_us
    assert where.provider.name == first.provider
    assert all(each.p99_us >= each.median_us > 0.0 and each.error is not None for each in where.candidates)
    notes = where.notes()
    assert notes[0] == f"provider {first.text()}: the fastest for this model on iluvatar:0"
    assert notes[1] == f"provider {second.text()}"


def test_what_was_measured_is_kept_by_model_and_chip(
    chip: Chip, loaded: LoadedPolicy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = placed(loaded, provider=AUTO)
    again = placed(loaded, provider=AUTO)
    assert again.candidates == tuple(replace(each, kept=True) for each in before.candidates)
    files = list((tmp_path / "home" / "calibration").iterdir())
    assert len(files) == 2
    for file in files:
        file.write_text("{" if file == files[0] else '{"schema": 1, "provider": "cpu", "median_us": NaN}')
    assert [each.kept for each in placed(loaded, provider=AUTO).candidates] == [False, False]
    assert [each.kept for each in placed(loaded, provider=AUTO).candidates] == [True, True]
    paths = {
        entry(sha, "IxRT", version, device, Placement(rows=rows))
        for sha, version, device, rows in (
            ("a", "1", BOTH, 1), ("b", "1", BOTH, 1), ("a", "2", BOTH, 1), ("a", "1", replace(BOTH, driver="4.4"), 1),
            ("a", "1", BOTH, 2),
        )
    }  # fmt: skip
    assert len(paths) == 5


def test_a_provider_that_does_not_open_is_out(chip: Chip, loaded: LoadedPolicy) -> None:
    chip.broken.add("build_serialized_network")
    where = placed(loaded, provider=AUTO)
    assert [each.provider for each in where.candidates] == ["cpu", "ixrt"]
    out = where.candidates[1]
    assert out.text().startswith("ixrt is out: IxRT cannot build an engine for policy")
    assert (out.report()["median_us"], out.kept) == (None, False)
    chip.broken.clear()
    assert placed(loaded, provider=AUTO).candidates[0].median_us > 0  # what was out is tried again


def test_results_that_cannot_be_kept_are_measured_again(chip: Chip, loaded: LoadedPolicy, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "calibration").write_text("in the way")
    path = entry("a", "IxRT", "1", BOTH, Placement())
    assert path is not None
    keep(path, Candidate(provider="ixrt", median_us=1.0, p99_us=2.0, error=0.0))
    assert recall(path) is None


def test_without_a_state_folder_nothing_is_kept(
    chip: Chip, loaded: LoadedPolicy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("EDGERT_HOME", "XDG_STATE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)

    def open_on(device: Device, placement: Placement) -> OnnxPolicy:
        return OnnxPolicy(loaded, device, placement=replace(placement, caches=tmp_path))

    for _ in range(2):
        policy, where = place(open_on, BOTH, Placement(provider=AUTO), loaded.file.sha256)
        policy.close()
        assert [each.kept for each in where.candidates] == [False, False]


def test_one_that_was_fastest_and_is_broken_now_is_passed_over(
    chip: Chip, loaded: LoadedPolicy, tmp_path: Path
) -> None:
    placed(loaded, provider=AUTO)
    for file in (tmp_path / "home" / "calibration").iterdir():
        told = json.loads(file.read_text())
        file.write_text(json.dumps(told | {"median_us": 1.0 if told["provider"] == "ixrt" else 9.0}))
    assert placed(loaded, provider=AUTO).provider.name == "ixrt"
    chip.fails["cudaMalloc"] = 2
    where = placed(loaded, provider=AUTO)
    assert where.provider.name == "cpu"
    assert where.notes()[1] == "provider ixrt is out: cudaMalloc fails on cuda:0: found 2. Run: edgert doctor"


class Fake:
    """Something that acts."""

    def __init__(self, act: Callable[[np.ndarray], Any]) -> None:
        self.obs = {"obs": np.zeros((2, 3), np.float32), "step": np.zeros((2, 1), np.int64)}
        self.out = {"a": np.zeros((2, 3), np.float32), "b": np.zeros((2, 3), np.float32)}
        self._act = act

    def act(self, obs: Any, out: Any) -> None:
        out["a"][...] = obs["obs"]
        out["b"][...] = self._act(obs["obs"])


@pytest.mark.parametrize(
    ("ours", "theirs", "good"),
    [
        (lambda x: 1000 * x + 0.5, lambda x: 1000 * x, True),  # of the outputs' scale
        (lambda x: x + 0.01, lambda x: x, False),
        (lambda x: x * np.nan, lambda x: x * np.nan, True),
        (lambda x: x * np.nan, lambda x: x, False),
        (lambda x: x + np.inf, lambda x: x, False),
        (lambda x: x + np.inf, lambda x: x + np.inf, True),
    ],
)
def test_errors_count_in_parts_of_the_outputs_scale(ours: Any, theirs: Any, good: bool) -> None:
    with np.errstate(all="ignore"):
        agreement = compare(Fake(ours), Fake(theirs))
    assert agreement.good is good
    assert agreement.output == ("a" if agreement.error == 0.0 else "b")
    assert (agreement.report()["error"] is None) is not np.isfinite(agreement.error)


def test_half_precision_is_tolerated_where_it_was_asked_for() -> None:
    half = Fake(lambda x: x.astype(np.float16) * np.float16(1.004))
    assert not compare(half, Fake(lambda x: x)).good
    assert compare(half, Fake(lambda x: x), "fp16").good
    assert TOLERANCES["fp16"] > TOLERANCES["fp32"]


def test_nodes_on_the_cpu_are_told_one_by_one() -> None:
    where = Placed(
        device=BOTH,
        provider=provider("cuda"),
        nodes=(Node("CUDAExecutionProvider", "Gemm"), Node("CPUExecutionProvider", "Det", "odd")),
        agreement=Agreement(error=0.0, tolerance=1e-3, output="actions"),
        candidates=(),
        precision="fp32",
    )
    assert where.notes()[-1] == "computed by the CPU, as --allow-cpu-nodes allows: Det 'odd'"
    assert where.report()["cpu_nodes"] == ["Det 'odd'"]
    assert where.report()["nodes"][1] == {"provider": "CPUExecutionProvider", "count": 1}


def test_the_network_and_the_physics_may_have_devices_of_their_own() -> None:
    assert Where().devices() == (find_device("cpu"), find_device("cpu"))
    with pytest.raises(UnknownNameError, match="unknown device 'cuda:7'"):
        Where(policy_device="cuda:7").devices()
    with pytest.raises(UnknownNameError, match="unknown device 'cuda:7'"):
        Where(physics_device="cuda:7").devices()
    policy, physics = Where(policy_device="cpu", physics_device="cpu", device="cuda:7").devices()
    assert (policy.name, physics.name) == ("cpu", "cpu")
    with pytest.raises(UnsupportedError, match="--precision is wrong: found int4, expected fp32 or fp16"):
        Where(precision="int4").placement(1)  # type: ignore[arg-type]
    assert on_chips(BOTH, find_device("cpu"), provider="IxRT") == {
        "device": "iluvatar:0", "device_chip": "MRC-V100-0x18", "provider": "IxRT", "physics_device": "cpu",
        "physics": "mujoco",
    }  # fmt: skip
