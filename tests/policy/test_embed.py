"""A contract written into a model: lossless, idempotent, and never onto anything else."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from contract_examples import documents
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from support import linear_model, quadruped_document, save, toml

from edgert.contract import parse_contract
from edgert.contract.document import fields_of
from edgert.contract.formats import NO_BODY
from edgert.errors import ContractError, EdgertError, IntegrityError
from edgert.policy import OnnxPolicy, load_policy
from edgert.policy.doubts import doubts
from edgert.policy.embed import embed, with_contract
from edgert.policy.facts import read_facts
from edgert.policy.fields import contract_fields
from edgert.policy.judge import MissingFactsError


def plain(folder: Path, **options: Any) -> Path:
    """A model without a contract, with one in policy.toml's place beside it as mine.toml."""
    path = save(linear_model(bias=0.25, **options), folder / "policy.onnx")
    (folder / "mine.toml").write_text(toml(quadruped_document()))
    return path


def metadata(path: Path) -> dict[str, str]:
    return {entry.key: entry.value for entry in onnx.load_model(path, load_external_data=False).metadata_props}


def test_the_copy_has_the_contract_and_all_else_is_as_it_was(tmp_path):
    def further(model: onnx.ModelProto) -> None:
        model.metadata_props.add(key="run_path", value="a/b")
        model.doc_string = "hello"

    path = plain(tmp_path, change=further)
    path.write_bytes(path.read_bytes() + b"\xda\x06\x03abc")  # a field that no version of ONNX has, number 107
    before = load_policy(path, tmp_path / "mine.toml")
    out = tmp_path / "out" / "ours.onnx"
    out.parent.mkdir()
    result = embed(before, out)
    assert (result.path, result.written, result.copied) == (out, True, ())
    assert out.read_bytes().startswith(path.read_bytes())
    assert list(metadata(out)) == ["run_path", "edgert.contract", "edgert.contract.provenance"]
    after = load_policy(out)
    assert after.contract.sha256() == before.contract.sha256()
    assert after.contract.to_document() == quadruped_document()
    with OnnxPolicy(after) as policy:
        policy.act(policy.obs, policy.out)
        assert (policy.action == 0.25).all()


def test_embedding_again_gives_the_same_bytes(tmp_path):
    path = plain(tmp_path)
    first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
    embed(load_policy(path, tmp_path / "mine.toml"), first)
    embed(load_policy(first), second)
    assert first.read_bytes() == second.read_bytes()
    assert not embed(load_policy(first), second).written
    assert not embed(load_policy(first), first).written
    (tmp_path / "policy.toml").write_text("control_hz = 25\n")
    third = tmp_path / "third.onnx"
    embed(load_policy(first), third)
    assert json.loads(metadata(third)["edgert.contract"])["control_hz"] == 25.0
    assert list(metadata(third)) == list(metadata(first))


def test_every_field_keeps_its_source(tmp_path):
    document = quadruped_document()
    del document["control_hz"], document["action"]["kind"]
    path = save(linear_model(), tmp_path / "policy.onnx")
    (tmp_path / "mine.toml").write_text(toml(document))
    out = tmp_path / "out.onnx"
    embed(load_policy(path, tmp_path / "mine.toml"), out)
    for _ in range(2):
        loaded = load_policy(out)
        assert loaded.contract.provenance["joints.kp"] == "metadata, from user (mine.toml)"
        assert loaded.contract.provenance["action.kind"] == "metadata, from default"
        assert loaded.contract.provenance["control_hz"] == "metadata, from assumed 50 Hz"
        assert loaded.notes == ("control_hz was assumed when the contract was embedded: 50 Hz",)
        out, again = tmp_path / "again.onnx", out
        embed(load_policy(again), out)


def test_what_the_user_meant_is_still_meant_afterwards(tmp_path):
    document = quadruped_document()
    document["joints"] |= {"kp": 1.0, "kd": 0.0}
    path = save(linear_model(), tmp_path / "policy.onnx")
    (tmp_path / "mine.toml").write_text(toml(document))
    embed(load_policy(path, tmp_path / "mine.toml"), tmp_path / "out.onnx")
    assert set(load_policy(tmp_path / "out.onnx").contract.kp) == {1.0}


def test_an_incomplete_contract_is_refused(tmp_path):
    path = save(linear_model(), tmp_path / "policy.onnx")
    with pytest.raises(MissingFactsError):
        embed(load_policy(path), tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize("text", ["[]", '{"control_hz": 3}', "{", '{"control_hz": "x", "control_hz": "y"}'])
def test_broken_provenance_is_refused(tmp_path, text):
    def change(model: onnx.ModelProto) -> None:
        model.metadata_props.add(key="edgert.contract.provenance", value=text)

    path = save(linear_model(document=quadruped_document(), change=change), tmp_path / "policy.onnx")
    with pytest.raises(ContractError, match=r"metadata 'edgert\.contract\.provenance' of .* is "):
        load_policy(path)


@pytest.fixture
def with_weights(tmp_path: Path) -> Path:
    """A model whose weights lie in a folder below it."""
    path = tmp_path / "theirs" / "policy.onnx"
    (path.parent / "w").mkdir(parents=True)
    model = linear_model(document=quadruped_document(), bias=0.25)
    onnx.save_model(model, path, save_as_external_data=True, location="w/policy.data", size_threshold=0)
    return path


def test_weights_are_copied_and_never_onto_others(with_weights, tmp_path):
    out = tmp_path / "ours" / "walk.onnx"
    out.parent.mkdir()
    data = out.parent / "w/policy.data"
    result = embed(load_policy(with_weights), out)
    assert result.copied == (str(data),)
    assert data.read_bytes() == (with_weights.parent / "w/policy.data").read_bytes()
    with OnnxPolicy(load_policy(out)) as policy:
        policy.act(policy.obs, policy.out)
        assert (policy.action == 0.25).all()
    assert embed(load_policy(with_weights), out).copied == ()
    data.write_bytes(b"other")
    out.unlink()
    with pytest.raises(IntegrityError) as caught:
        embed(load_policy(with_weights), out)
    assert str(caught.value) == (
        f"{data} is there already, and is not the file that belongs to the policy: expected that of "
        f"{with_weights.parent / 'w/policy.data'}. Write into another folder: it is never replaced"
    )
    assert data.read_bytes() == b"other"
    assert not out.exists()
    assert [path.name for path in data.parent.iterdir()] == ["policy.data"]


def test_weights_stay_where_they_are_in_the_same_folder(with_weights):
    out = with_weights.parent / "walk.onnx"
    assert embed(load_policy(with_weights), out).copied == ()
    assert embed(load_policy(with_weights), with_weights, overwrite=True).written
    assert load_policy(with_weights).contract.to_document() == quadruped_document()


def test_the_model_never_takes_the_place_of_its_weights(with_weights):
    with pytest.raises(
        IntegrityError, match=r"would take the place of a file that belongs to the policy: found policy"
    ):
        embed(load_policy(with_weights), with_weights.parent / "w/../w/policy.data", overwrite=True)


def test_weights_are_not_copied_through_a_link_out_of_the_folder(with_weights, tmp_path):
    out = tmp_path / "ours" / "walk.onnx"
    out.parent.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (out.parent / "w").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(IntegrityError, match="outside its folder"):
        embed(load_policy(with_weights), out)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_networks_and_motions_go_with_their_policy(tmp_path):
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    (theirs / "parts").mkdir(parents=True)
    ours.mkdir()
    encoder = linear_model(dim=2, nact=2)
    encoder.graph.output[0].name = encoder.graph.node[0].output[0] = "latent"
    onnx.save_model(
        encoder, theirs / "parts/encoder.onnx", save_as_external_data=True, location="encoder.data", size_threshold=0
    )
    latent = {"name": "network_output", "of": "encoder.latent", "dim": 2}
    document = {
        "schema": 1,
        "control_hz": 50.0,
        "joints": {"names": ["hip", "knee"], "default_pos": 0.0, "kp": 20.0, "kd": 0.5},
        "network": [{"name": "encoder", "file": "parts/encoder.onnx", "inputs": {"obs": {"terms": ["joint_pos"]}}}],
        "inputs": {"obs": {"terms": ["base_ang_vel", latent, "motion_joint_pos"]}},
        "action": {"output": "actions"},
        "motion": {"file": "walk.csv", "hz": 50.0},
    }
    (theirs / "walk.csv").write_text("0,0,0,0,0,0,1,0.1,0.2\n" * 3)
    loaded = load_policy(save(linear_model(dim=7, nact=2, document=document), theirs / "policy.onnx"))
    result = embed(loaded, ours / "walk.onnx")
    names = ("parts/encoder.onnx", "parts/encoder.data", "walk.csv")
    assert sorted(result.copied) == sorted(str(ours / name) for name in names)
    for name in names:
        assert (ours / name).read_bytes() == (theirs / name).read_bytes()
    again = load_policy(ours / "walk.onnx")
    assert again.contract.sha256() == loaded.contract.sha256()
    assert again.networks["encoder"].sha256 == loaded.networks["encoder"].sha256


def test_a_file_that_is_there_is_replaced_only_on_demand(tmp_path):
    loaded = load_policy(plain(tmp_path), tmp_path / "mine.toml")
    out = tmp_path / "out.onnx"
    out.write_bytes(b"mine")
    with pytest.raises(IntegrityError) as caught:
        embed(loaded, out)
    assert str(caught.value) == (
        f"{out} is there already: expected a new file. Name another one, or replace it with --overwrite"
    )
    assert out.read_bytes() == b"mine"
    assert embed(loaded, out, overwrite=True).written
    assert load_policy(out).contract.sha256() == loaded.contract.sha256()
    path = loaded.file.path
    assert embed(loaded, path, overwrite=True).written
    assert path.read_bytes() == out.read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["mine.toml", "out.onnx", "policy.onnx"]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda out: out.mkdir(), "is a folder: expected the name of a file to write"),
        (os.mkfifo, "is there already"),
        (lambda out: out.symlink_to("nowhere"), "is there already"),
    ],
)
def test_what_is_no_file_is_never_replaced(tmp_path, make, text):
    loaded = load_policy(plain(tmp_path), tmp_path / "mine.toml")
    make(tmp_path / "out.onnx")
    with pytest.raises(IntegrityError, match=text):
        embed(loaded, tmp_path / "out.onnx", overwrite=True)
    with pytest.raises(IntegrityError, match=r"no folder .*none\. Make the folder first"):
        embed(loaded, tmp_path / "none" / "out.onnx")


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    loaded = load_policy(plain(tmp_path), tmp_path / "mine.toml")
    with pytest.raises(IntegrityError, match=r"cannot write .*: found (File name too long|Permission denied)"):
        embed(loaded, tmp_path / ("x" * 300))


@pytest.mark.parametrize("failing", [1, 3])
def test_a_disk_that_fills_up_leaves_nothing_half_done(with_weights, tmp_path, monkeypatch, failing):
    """First while the weights are copied, then while the model is written."""
    out = tmp_path / "ours" / "walk.onnx"
    out.parent.mkdir()
    calls = []

    def fsync(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == failing:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", fsync)
    with pytest.raises(IntegrityError, match=r"cannot write .*: found No space left on device\. Check the folder and"):
        embed(load_policy(with_weights), out)
    left = sorted(str(path.relative_to(out.parent)) for path in out.parent.rglob("*") if path.is_file())
    assert left == ([] if failing == 1 else ["w/policy.data"])
    monkeypatch.undo()
    assert embed(load_policy(with_weights), out).written


def test_a_name_of_any_length_can_be_written(tmp_path):
    out = tmp_path / f"{'ä' * 125}.onnx"
    embed(load_policy(plain(tmp_path), tmp_path / "mine.toml"), out)
    assert load_policy(out).contract.to_document() == quadruped_document()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(documents())
def test_any_contract_survives_and_runs_as_before(tmp_path_factory, document):
    contract = parse_contract(document, "test")
    assume(contract.action.outputs[0] not in ("obs", "w", "b"))
    weight = np.random.default_rng(0).normal(size=(contract.inputs["obs"].dim, 2))
    model = linear_model(dim=len(weight), nact=2, weight=weight, bias=0.25)
    model.graph.output[0].name = model.graph.node[0].output[0] = contract.action.outputs[0]
    folder = tmp_path_factory.mktemp("embed")
    path = save(model, folder / "policy.onnx")
    path.write_bytes(with_contract(path.read_bytes(), contract))
    try:
        loaded = load_policy(path)
    except ContractError as error:
        assume("cannot be meant" not in str(error) and "looks like" not in str(error))
        raise
    assert loaded.contract.sha256() == contract.sha256()
    embed(loaded, folder / "again.onnx")
    assert (folder / "again.onnx").read_bytes() == path.read_bytes()
    again = load_policy(folder / "again.onnx")
    assert again.contract.to_document() == contract.to_document()
    rows = contract_fields(read_facts(folder / "again.onnx", None, NO_BODY, None), again.contract, doubts(contract, {}))
    assert {row.name for row in rows if row.state != "doubtful"} <= {*fields_of(contract.to_document())}
    actions = []
    for each in (loaded, again):
        with OnnxPolicy(each) as policy:
            policy.obs["obs"][:] = np.linspace(-1.0, 1.0, len(weight))
            policy.action[:] = np.nan
            policy.act(policy.obs, policy.out)
            actions.append(policy.action.tolist())
    assert actions[0] == actions[1]
    np.testing.assert_allclose(actions[0][0], np.linspace(-1.0, 1.0, len(weight)) @ weight + 0.25, rtol=1e-4, atol=1e-4)


WHOLE = with_contract(linear_model().SerializeToString(), parse_contract(quadruped_document(), "test"))


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_a_changed_byte_is_embedded_or_refused(tmp_path_factory, data):
    """Only the ends of the file, where the metadata and the sizes are, or any other byte."""
    changed = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(WHOLE) - 1))] = data.draw(st.integers(0, 255))
    folder = tmp_path_factory.mktemp("changed")
    path = folder / "policy.onnx"
    path.write_bytes(changed)
    try:
        loaded = load_policy(path)
        embed(loaded, folder / "out.onnx")
    except EdgertError as error:
        assert str(error).isprintable()  # noqa: PT017  # only if it is refused
    else:
        assert load_policy(folder / "out.onnx").contract.sha256() == loaded.contract.sha256()


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_taken_apart_or_refused(data):
    contract = parse_contract(quadruped_document(), "test")
    try:
        result = with_contract(data, contract)
    except IntegrityError as error:
        assert "the model " in str(error)  # noqa: PT017
        return
    assert result.endswith(WHOLE[-100:])
    assert with_contract(result, contract) == result
