"""Which documents make a policy's contract, and who wins."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import linear_model, quadruped_document, save

from edgert import assets
from edgert.errors import ContractError, IntegrityError, UnknownNameError
from edgert.policy import load_policy


def test_metadata_alone_is_enough(tmp_path: Path) -> None:
    path = save(linear_model(document=quadruped_document()), tmp_path / "policy.onnx")
    loaded = load_policy(str(path))
    assert loaded.contract.to_document() == quadruped_document()
    assert loaded.contract.provenance["control_hz"] == "metadata"
    assert loaded.overrides == ()


def test_sidecar_overrides_field_by_field(tmp_path: Path) -> None:
    path = save(linear_model(document=quadruped_document()), tmp_path / "policy.onnx")
    (tmp_path / "policy.toml").write_text("control_hz = 25\n[joints]\nkd = 1.5\n")
    loaded = load_policy(str(path))
    assert loaded.contract.control_hz == 25
    assert set(loaded.contract.kd) == {1.5}
    assert loaded.contract.kp == tuple(quadruped_document()["joints"]["kp"])
    assert loaded.overrides == ("control_hz: sidecar (policy.toml)", "joints.kd: sidecar (policy.toml)")
    assert loaded.contract.provenance["joints.kd"] == "sidecar (policy.toml)"
    assert loaded.contract.provenance["joints.kp"] == "metadata"


def test_named_contract_replaces_the_sidecar(tmp_path: Path) -> None:
    path = save(linear_model(document=quadruped_document()), tmp_path / "policy.onnx")
    (tmp_path / "policy.toml").write_text("control_hz = 25\n")
    mine = tmp_path / "mine.toml"
    mine.write_text("[joints]\nkp = 20\n")
    loaded = load_policy(str(path), mine)
    assert loaded.contract.control_hz == 50
    assert loaded.overrides == ("joints.kp: user (mine.toml)",)


def test_the_only_output_needs_no_name(tmp_path: Path) -> None:
    document = quadruped_document()
    del document["action"]["output"]
    loaded = load_policy(str(save(linear_model(document=document), tmp_path / "policy.onnx")))
    assert loaded.contract.action.outputs == ("actions",)
    assert loaded.contract.provenance["action.output"] == "model: its only output"


def test_a_policy_without_a_contract_says_what_to_write(tmp_path: Path) -> None:
    path = save(linear_model(), tmp_path / "policy.onnx")
    with pytest.raises(ContractError) as caught:
        load_policy(str(path))
    assert str(caught.value) == (
        f"policy {path} does not say what its numbers mean: found no 'edgert.contract' metadata, no policy.toml and "
        "no file of a known trainer beside it, expected joints.names (the joints in the policy's order), "
        "joints.default_pos (the default pose, rad), joints.kp (N·m/rad), joints.kd (N·m·s/rad), "
        "inputs.obs.terms (what its 50 numbers are, in their order; rsl_rl exports state nothing: its normaliser is "
        "inside the network, all else in the trainer's configuration). "
        f"Write that into {tmp_path / 'policy.toml'}, or into a file for --contract, such as joints.names = "
        '["hip", "knee"]; docs/policy-toml.md shows how'
    )


@pytest.mark.parametrize("text", ["not json", "[1]", "NaN", '{"schema": NaN}', "{" * 10_000])
def test_broken_metadata_is_refused(tmp_path: Path, text: str) -> None:
    def change(model: object) -> None:
        entry = model.metadata_props.add()  # type: ignore[attr-defined]
        entry.key, entry.value = "edgert.contract", text

    path = save(linear_model(change=change), tmp_path / "policy.onnx")
    with pytest.raises(ContractError, match=r"metadata 'edgert.contract' of"):
        load_policy(str(path))


def test_newer_metadata_is_refused_even_under_an_older_sidecar(tmp_path: Path) -> None:
    document = quadruped_document() | {"schema": 2}
    path = save(linear_model(document=document), tmp_path / "policy.onnx")
    (tmp_path / "policy.toml").write_text("schema = 1\n")
    with pytest.raises(
        ContractError, match=r"key 'schema' is wrong: found 2, expected at most 1\. This file was written"
    ):
        load_policy(str(path))


def test_named_contract_that_is_missing_is_refused(tmp_path: Path) -> None:
    path = save(linear_model(document=quadruped_document()), tmp_path / "policy.onnx")
    with pytest.raises(ContractError, match="cannot read contract file"):
        load_policy(str(path), tmp_path / "absent.toml")


def test_unknown_name_lists_the_bundled_models() -> None:
    known = ", ".join(assets.names("models"))
    with pytest.raises(UnknownNameError, match=rf"no policy 'hexapod': expected an \.onnx file, or {known}"):
        load_policy("hexapod")
    assert "quadruped" in known


def test_a_bare_word_is_a_name_whatever_lies_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "quadruped").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load_policy("quadruped").file.path.parent.parent.name == "models"
    with pytest.raises(IntegrityError, match=r"policy quadruped is a folder"):
        load_policy("./quadruped")
    (tmp_path / "walkers").mkdir()
    with pytest.raises(UnknownNameError, match=r"A file of your own is named by its path, such as \./walkers"):
        load_policy("walkers")


def test_a_folder_is_refused_with_the_models_in_it(tmp_path: Path) -> None:
    for name in ("walk.onnx", "turn.onnx", "deploy.yaml"):
        (tmp_path / name).touch()
    with pytest.raises(IntegrityError) as caught:
        load_policy(str(tmp_path))
    models = f"{tmp_path / 'turn.onnx'} or {tmp_path / 'walk.onnx'}"
    assert str(caught.value) == f"policy {tmp_path} is a folder: expected {models}"


def test_missing_path_is_a_missing_file() -> None:
    with pytest.raises(IntegrityError, match=r"cannot read policy nowhere/policy.onnx"):
        load_policy("nowhere/policy.onnx")
