"""Facts that are missing, assumed or cannot be meant, and files of other trainers that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper
from support import linear_model, quadruped_document, save, toml

from edgert.contract.formats import FORMATS, Body, Reading
from edgert.errors import ContractError
from edgert.policy import load_policy
from edgert.policy.facts import read_facts
from edgert.policy.judge import MissingFactsError


class Trainer:
    """A format that is always there and says what a test wants; its file is theirs.yaml, and others of a pattern."""

    files = ("theirs.yaml", "extra_*.yaml")
    generic = False

    def __init__(self) -> None:
        self.document: dict[str, Any] = {}
        self.reasons: dict[str, str] = {}
        self.robot: tuple[str, ...] = ()

    def evidence(self, found: Any) -> str:
        return "a test"

    def read(self, found: Any) -> Reading:
        if found.joints not in ((), self.robot):
            raise ContractError("theirs.yaml is of another robot")
        return Reading(document=self.document, source="theirs.yaml", notes=("so it is",), reasons=self.reasons)


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> Trainer:
    """The only format there is."""
    reader = Trainer()
    monkeypatch.setattr(FORMATS, "names", lambda: ("theirs",))
    monkeypatch.setattr(FORMATS, "load", lambda name: reader)
    return reader


def missing(path: Path, **options: Any) -> MissingFactsError:
    with pytest.raises(MissingFactsError) as caught:
        load_policy(path, **options)
    return caught.value


def test_every_missing_fact_is_listed_at_once(tmp_path: Path) -> None:
    def further(model: onnx.ModelProto) -> None:
        model.graph.input.append(helper.make_tensor_value_info("obj.leg.pos", TensorProto.FLOAT, [1, 7]))
        model.graph.output.append(helper.make_tensor_value_info("value", TensorProto.FLOAT, [1, 1]))

    path = save(linear_model(change=further), tmp_path / "policy.onnx")
    error = missing(path)
    assert [fact.field for fact in error.missing] == [
        "joints.names", "joints.default_pos", "joints.kp", "joints.kd", "inputs.obs.terms",
        'inputs."obj.leg.pos".terms', "action.output",
    ]  # fmt: skip
    assert str(error) == (
        f"policy {path} does not say what its numbers mean: found no 'edgert.contract' metadata, no policy.toml and "
        "no file of a known trainer beside it, expected joints.names (the joints in the policy's order), "
        "joints.default_pos (the default pose, rad), joints.kp (N·m/rad), joints.kd (N·m·s/rad), "
        "inputs.obs.terms (what its 50 numbers are, in their order), "
        'inputs."obj.leg.pos".terms (what its 7 numbers are, in their order), action.output (which of actions, value). '
        f"Write that into {tmp_path / 'policy.toml'}, or into a file for --contract, such as joints.names = "
        '["hip", "knee"]; docs/policy-toml.md shows how'
    )


def test_what_is_known_is_told_with_its_source(tmp_path: Path, trainer: Trainer) -> None:
    trainer.document = {"control_hz": 50.0, "joints": {"names": ["a", "b"], "kp": 10.0}}
    path = save(linear_model(dim=4, nact=2), tmp_path / "policy.onnx")
    (tmp_path / "mine.toml").write_text("schema = 1\n[joints]\nkd = 1\n")
    error = missing(path, contract_path=tmp_path / "mine.toml")
    assert [fact.field for fact in error.missing] == ["joints.default_pos", "inputs.obs.terms"]
    assert error.found == "3 facts from theirs.yaml, 1 fact from user (mine.toml)"
    assert str(error).startswith(f"policy {path} lacks 2 facts: found 3 facts from theirs.yaml, ")
    assert error.hint == (
        f"Write that into {tmp_path / 'mine.toml'}, such as joints.default_pos = [0.9, -1.8]; docs/policy-toml.md "
        "shows how"
    )


def test_a_reason_of_the_format_is_told(tmp_path: Path, trainer: Trainer) -> None:
    trainer.document = {"joints": {"names": ["a", "b"], "default_pos": 0.0, "kd": 1.0}}
    trainer.reasons = {"joints.kp": "0 for every joint", "joints.kd": "which is there"}
    error = missing(save(linear_model(dim=4, nact=2), tmp_path / "policy.onnx"))
    assert error.what.endswith("lacks 2 facts")
    assert "or into a file for --contract, such as joints.kp = 35.0;" in error.hint
    assert error.expected == (
        "joints.kp (N·m/rad; 0 for every joint), inputs.obs.terms (what its 4 numbers are, in their order)"
    )


@pytest.mark.parametrize(
    ("term", "field"),
    [
        ("command", "command.kind"),
        ("goal_pos", "command.kind"),
        ("sin_phase", "phase.hz"),
        ("motion_command", "motion.file"),
    ],
)
def test_a_section_that_a_term_needs_is_missing_too(tmp_path: Path, term: str, field: str) -> None:
    document = quadruped_document()
    document["inputs"]["obs"]["terms"] = ["joint_pos", {"name": term}]
    for section in ("command", "phase"):
        document.pop(section, None)
    path = save(linear_model(document=document), tmp_path / "policy.onnx")
    assert [fact.field for fact in missing(path).missing] == [field]


def test_the_rate_is_assumed_and_said(tmp_path: Path) -> None:
    document = quadruped_document()
    del document["control_hz"]
    loaded = load_policy(save(linear_model(document=document), tmp_path / "policy.onnx"))
    assert loaded.contract.control_hz == 50.0
    assert loaded.contract.provenance["control_hz"] == "assumed 50 Hz"
    assert loaded.notes == ("nothing says at which rate the policy runs: assumed 50 Hz (control_hz)",)


@pytest.mark.parametrize("part", ["joints", "inputs", "action"])
def test_a_part_of_the_wrong_type_is_refused_by_its_key(tmp_path: Path, part: str) -> None:
    document = quadruped_document() | {part: 3}
    path = save(linear_model(document=document), tmp_path / "policy.onnx")
    with pytest.raises(ContractError, match=rf"key '{part}' is wrong: found an integer 3, expected a table"):
        load_policy(path)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"joints.kp": 1.0, "joints.kd": -0.0}, "found kp 1 and kd 0 for every joint, a placeholder (theirs.yaml)"),
        ({"joints.kp": 2e5}, "found kp 200000 N·m/rad for FL_hip_joint (theirs.yaml)"),
        ({"action.scale": 0.0}, "found an action scale of 0 for every joint (theirs.yaml)"),
        ({"control_hz": 0.05}, "found an action every 20 s (theirs.yaml)"),
        (
            {"joints.kp": [30.0, 0.0, *[30.0] * 10]},
            "found kp 0 for FL_thigh_joint, which the network gives positions alone (theirs.yaml)",
        ),
    ],
)
def test_values_that_cannot_be_meant_are_refused_unless_the_user_states_them(
    tmp_path: Path, trainer: Trainer, change: dict[str, Any], text: str
) -> None:
    trainer.document = quadruped_document()
    lines = ["schema = 1"]
    for field, value in change.items():
        table, _, name = field.rpartition(".")
        (trainer.document[table] if table else trainer.document)[name] = value
        lines.append(f"{field} = {value}")
    path = save(linear_model(), tmp_path / "policy.onnx")
    with pytest.raises(ContractError) as caught:
        load_policy(path)
    assert text in str(caught.value)
    assert str(caught.value).startswith(f"policy {path} states values that cannot be meant: found ")
    assert " into policy.toml; docs/policy-toml.md shows how" in str(caught.value)
    (tmp_path / "policy.toml").write_text("\n".join(lines))
    assert load_policy(path).overrides == ()


def test_a_broken_file_of_the_formats_own_name_is_refused(tmp_path: Path, trainer: Trainer) -> None:
    trainer.document = quadruped_document()
    path = save(linear_model(), tmp_path / "policy.onnx")
    (tmp_path / "extra_a.yaml").write_text("[")
    assert not [note for note in load_policy(path).notes if note.startswith("not used")]  # what is known is enough
    (tmp_path / "theirs.yaml").write_text("[")
    with pytest.raises(ContractError, match=r"theirs\.yaml cannot be read as safe YAML"):
        load_policy(path)
    with pytest.raises(ContractError, match=r"theirs\.yaml cannot be read as safe YAML"):
        load_policy(path, format="theirs")


def test_a_broken_file_of_another_format_does_not_count(tmp_path: Path, trainer: Trainer) -> None:
    trainer.document = quadruped_document()
    path = save(linear_model(), tmp_path / "policy.onnx")
    (tmp_path / "deploy.yaml").write_text("[")
    assert load_policy(path).notes == ("format theirs: a test", "so it is")


def test_no_missing_fact_is_cut_out_of_a_long_list(tmp_path: Path) -> None:
    names = [f"a_rather_long_name_of_an_input_{number}" for number in range(30)]

    def further(model: onnx.ModelProto) -> None:
        model.graph.input.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 7]) for name in names)

    text = str(missing(save(linear_model(change=further), tmp_path / "policy.onnx")))
    assert all(f"inputs.{name}.terms (what its 7 numbers are, in their order)" in text for name in names)


def test_facts_of_further_networks_are_missing_too(tmp_path: Path) -> None:
    encoder = linear_model(dim=4, nact=2)
    encoder.graph.input[0].name = encoder.graph.node[0].input[0] = "seen"
    encoder.graph.input.append(helper.make_tensor_value_info("h_in", TensorProto.FLOAT, [1, 2]))
    encoder.graph.node.append(helper.make_node("Identity", ["h_in"], ["h_out"]))
    encoder.graph.output.append(helper.make_tensor_value_info("h_out", TensorProto.FLOAT, [1, 2]))
    save(encoder, tmp_path / "encoder.onnx")
    document = quadruped_document()
    document["network"] = [{"name": "encoder", "file": "encoder.onnx"}]
    path = save(linear_model(document=document), tmp_path / "policy.onnx")
    assert [(fact.field, fact.what) for fact in missing(path).missing] == [
        ("network 'encoder' inputs.seen.terms", "what its 4 numbers are, in their order")
    ]
    document["network"][0]["inputs"] = {"seen": {"terms": ["base_ang_vel", {"name": "command", "index": [0]}]}}
    path = save(linear_model(document=document), path)
    assert load_policy(path).contract.networks[0].recurrent == {"h_in": "h_out"}
    document["network"][0]["inputs"] = {"seen": {"terms": ["base_ang_vel"]}}
    with pytest.raises(
        ContractError, match=r"input 'seen' of policy .*encoder\.onnx has another size than the contract"
    ):
        load_policy(save(linear_model(document=document), path))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[joint]\nkp = 35.0\n", "joint"),
        ("[joints]\ndefault_position = 0.0\n", "joints.default_position"),
        ('[inputs.obs]\nterm = ["joint_pos"]\n', "inputs.obs.term"),
    ],
)
def test_a_misspelt_key_is_told_before_the_fact_that_is_missing_for_it(tmp_path: Path, text: str, key: str) -> None:
    path = save(linear_model(), tmp_path / "policy.onnx")
    (tmp_path / "policy.toml").write_text(f"schema = 1\n{text}")
    with pytest.raises(ContractError, match=rf"policy\.toml: unknown key '{key}': expected one of "):
        load_policy(path)


def test_a_broken_file_is_said_where_the_users_own_contract_says_everything(tmp_path: Path) -> None:
    path = save(linear_model(), tmp_path / "policy.onnx")
    (tmp_path / "metadata.json").write_text("[1]")
    with pytest.raises(ContractError, match=r"metadata\.json is not a JSON object"):
        load_policy(path)
    mine = tmp_path / "mine.toml"
    mine.write_text("schema = 1\njoints.kp = 30\n")
    error = missing(path, contract_path=mine)
    assert "1 fact from user (mine.toml), 1 fact from assumed 50 Hz; not used: sidecar file " in error.found
    mine.write_text(toml(quadruped_document()))
    notes = load_policy(path, contract_path=mine).notes
    assert [note for note in notes if note.startswith("not used: sidecar file")] != []


def test_a_file_that_cannot_be_read_is_named_in_the_refusal(tmp_path: Path) -> None:
    path = save(linear_model(), tmp_path / "policy.onnx")
    (tmp_path / "env.yaml").write_text("a: !!python/object/apply:os.system ['true']\n")
    assert "; not used: sidecar file " in missing(path).found
    assert "could not determine a constructor for the tag" in missing(path).found


def test_an_output_called_actions_is_the_action_of_a_known_trainer(tmp_path: Path, trainer: Trainer) -> None:
    def further(model: onnx.ModelProto) -> None:
        model.graph.output.append(helper.make_tensor_value_info("latent", TensorProto.FLOAT, [1, 1]))
        model.graph.node.append(helper.make_node("ReduceMax", ["obs"], ["latent"], axes=[1]))

    trainer.document = quadruped_document()
    del trainer.document["action"]["output"]
    loaded = load_policy(save(linear_model(change=further), tmp_path / "policy.onnx"))
    assert loaded.contract.action.outputs == ("actions",)
    assert loaded.contract.provenance["action.output"] == "model: the name of its output"


def test_a_file_of_a_trainer_is_no_contract(tmp_path: Path) -> None:
    path = save(linear_model(), tmp_path / "policy.onnx")
    with pytest.raises(ContractError) as caught:
        load_policy(path, tmp_path / "deploy.yaml")
    assert str(caught.value) == (
        f"contract file {tmp_path / 'deploy.yaml'} is not in edgert's own format: found a .yaml file, expected a "
        "policy.toml. Leave it out: what a trainer left beside the model, such as deploy.yaml, is found by itself"
    )


def test_a_robot_that_a_format_refuses_leaves_what_is_known_without_it(tmp_path: Path, trainer: Trainer) -> None:
    trainer.robot = ("a", "b")
    trainer.document = {"joints": {"kp": 20.0}}
    path = save(linear_model(dim=4, nact=2), tmp_path / "policy.onnx")
    other = Body(joints=("c",))
    facts = read_facts(path, None, other, None)
    contract, unfit = facts.judged()
    assert contract is None
    assert [str(error) for error in unfit] == ["theirs.yaml is of another robot"]
    assert facts.document["joints"] == {"kp": 20.0}
    assert facts.provenance["joints.kp"] == "theirs.yaml"
    with pytest.raises(ContractError, match=r"^theirs\.yaml is of another robot$"):
        load_policy(path, body=other)
    assert read_facts(path, None, Body(joints=("a", "b")), None).refused == ()


def test_what_a_format_refuses_with_any_robot_is_not_read(tmp_path: Path, trainer: Trainer) -> None:
    def refuse(found: Any) -> Reading:
        raise ContractError("theirs.yaml contradicts itself")

    trainer.read = refuse  # type: ignore[method-assign]
    path = save(linear_model(dim=4, nact=2), tmp_path / "policy.onnx")
    facts = read_facts(path, None, Body(joints=("c",)), None)
    assert [str(error) for error in facts.judged()[1]] == ["theirs.yaml contradicts itself"]
    assert facts.sources == ()
    with pytest.raises(ContractError, match="contradicts itself"):
        load_policy(path)
