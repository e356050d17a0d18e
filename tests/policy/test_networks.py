"""Several networks as one policy: what feeds what, when each runs, and what belongs to the episode."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support import finished, save

from edgert.errors import ContractError, IntegrityError
from edgert.policy import OnnxPolicy, load_policy

F32 = np.float32


def affine_model(inputs: dict[str, int], outputs: dict[str, np.ndarray], *, batch: Any = "batch") -> onnx.ModelProto:
    """Each output is all inputs side by side times its matrix."""
    nodes = [helper.make_node("Concat", list(inputs), ["x"], axis=1)]
    tensors, values = [], []
    for name, matrix in outputs.items():
        tensors.append(numpy_helper.from_array(matrix.astype(F32), f"w_{name}"))
        nodes.append(helper.make_node("MatMul", ["x", f"w_{name}"], [name]))
        values.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, matrix.shape[1]]))
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, size]) for name, size in inputs.items()]
    return finished(helper.make_graph(nodes, "network", given, values, tensors), None)


def counting_model() -> onnx.ModelProto:
    """count = n_out = n_in + 1: how often it ran since its reset; it looks at obs[., 1] in vain."""
    nodes = [
        helper.make_node("Mul", ["obs", "zero"], ["nothing"]),
        helper.make_node("Add", ["n_in", "one"], ["more"]),
        helper.make_node("Add", ["more", "nothing"], ["n_out"]),
        helper.make_node("Identity", ["n_out"], ["count"]),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "counter",
        [value("obs", TensorProto.FLOAT, [1, 1]), value("n_in", TensorProto.FLOAT, [1, 1])],
        [value("count", TensorProto.FLOAT, [1, 1]), value("n_out", TensorProto.FLOAT, [1, 1])],
        [numpy_helper.from_array(F32(0.0), "zero"), numpy_helper.from_array(F32(1.0), "one")],
    )
    return finished(graph, None)


def document(**changes: Any) -> dict[str, Any]:
    """Two joints; MODEL takes the base's rate and two numbers of the encoder."""
    latent = {"name": "network_output", "of": "encoder.latent", "dim": 2}
    base = {
        "schema": 1,
        "control_hz": 50.0,
        "joints": {"names": ["hip", "knee"], "default_pos": 0.0, "kp": 20.0, "kd": 0.5},
        "network": [{"name": "encoder", "file": "encoder.onnx", "inputs": {"obs": {"terms": ["joint_pos"]}}}],
        "inputs": {"obs": {"terms": ["base_ang_vel", latent]}},
        "action": {"output": "actions"},
    }
    return json.loads(json.dumps({key: value for key, value in (base | changes).items() if value is not None}))


def put(folder: Path, contract: dict[str, Any], main: onnx.ModelProto, **others: onnx.ModelProto) -> Path:
    """The model with the contract in its metadata, and its other networks beside it."""
    entry = main.metadata_props.add()
    entry.key, entry.value = "edgert.contract", json.dumps(contract)
    for name, model in others.items():
        save(model, folder / f"{name}.onnx")
    return save(main, folder / "policy.onnx")


ENCODE = np.array([[1.0, 0.0], [0.0, 10.0]])
ACT = np.zeros((5, 2))
ACT[0, 0], ACT[3, 0], ACT[4, 1] = 1.0, 100.0, 100.0  # joint 0: rate x + 100 latent 0; joint 1: 100 latent 1


def encoded(tmp_path: Path, **changes: Any) -> Path:
    return put(
        tmp_path,
        document(**changes),
        affine_model({"obs": 5}, {"actions": ACT, "value": np.ones((5, 1))}),
        encoder=affine_model({"obs": 2}, {"latent": ENCODE}),
    )


def test_an_encoder_feeds_the_actor_at_the_same_tick(tmp_path: Path) -> None:
    with OnnxPolicy(load_policy(encoded(tmp_path)), nworld=3) as policy:
        assert list(policy.obs) == ["obs", "encoder.obs"]
        policy.obs["encoder.obs"][:] = [[1.0, 2.0], [3.0, 4.0], [0.0, 0.0]]
        policy.obs["obs"][:] = [[0.5, 0, 0, 9, 9], [0, 0, 0, 9, 9], [0.25, 0, 0, 9, 9]]
        policy.act(policy.obs, policy.out)
        assert policy.action.tolist() == [[100.5, 2000.0], [300.0, 4000.0], [0.25, 0.0]]
        assert policy.obs["obs"][0].tolist() == [0.5, 0.0, 0.0, 1.0, 20.0]


def test_scale_offset_clip_and_index_apply_to_what_a_network_hands_on(tmp_path: Path) -> None:
    term = {"name": "network_output", "of": "encoder.latent", "index": [1, 0], "dim": 2}
    term |= {"scale": [0.5, 2.0], "offset": 1.0, "clip": [-3.0, 3.0]}
    path = encoded(tmp_path, inputs={"obs": {"terms": ["base_ang_vel", term]}})
    with OnnxPolicy(load_policy(path)) as policy:
        policy.obs["encoder.obs"][:] = [[-0.5, 0.1]]
        policy.act(policy.obs, policy.out)
        assert policy.obs["obs"][0, 3:].tolist() == pytest.approx([1.5, 0.0])
        policy.obs["encoder.obs"][:] = [[-5.0, 1.0]]
        policy.act(policy.obs, policy.out)
        assert policy.obs["obs"][0, 3:].tolist() == [3.0, -3.0]


@pytest.mark.parametrize("where", ["previous", "later", "itself"])
def test_an_output_of_the_tick_before_is_zero_at_reset_and_belongs_to_its_world(tmp_path: Path, where: str) -> None:
    names = {"previous": "encoder.latent", "later": "encoder.latent", "itself": "actions"}
    term = {"name": "network_output", "of": names[where], "dim": 2} | (
        {"previous": True} if where == "previous" else {}
    )
    encoder = document()["network"][0]
    networks = {"previous": [encoder], "later": [{"name": "policy"}, encoder], "itself": None}[where]
    path = encoded(tmp_path, network=networks, inputs={"obs": {"terms": ["base_ang_vel", term]}})
    with OnnxPolicy(load_policy(path), nworld=2) as policy:
        seen = []
        for tick in range(4):
            if tick == 2:
                policy.reset(np.array([True, False]))
            if where != "itself":
                policy.obs["encoder.obs"][:] = [[tick + 1.0, 0.0], [tick + 5.0, 0.0]]
            policy.obs["obs"][:, 0] = 1.0
            policy.act(policy.obs, policy.out)
            seen.append(policy.obs["obs"][:, 3].tolist())
    if where == "itself":
        assert seen == [[0.0, 0.0], [1.0, 1.0], [0.0, 101.0], [1.0, 10101.0]]
    else:
        assert seen == [[0.0, 0.0], [1.0, 5.0], [0.0, 6.0], [3.0, 7.0]]


def test_a_part_of_what_a_network_gives_is_picked(tmp_path: Path) -> None:
    term = {"name": "network_output", "of": "encoder.latent", "index": [1], "dim": 1}
    path = encoded(tmp_path, inputs={"obs": {"terms": ["base_ang_vel", term, {"name": "constant", "value": 0.0}]}})
    loaded = load_policy(path)
    assert loaded.contract.to_document()["inputs"]["obs"]["terms"][1]["dim"] == 1
    with OnnxPolicy(loaded) as policy:
        policy.obs["encoder.obs"][:] = [[3.0, 0.5]]
        policy.act(policy.obs, policy.out)
        assert policy.obs["obs"][0, 3:].tolist() == [5.0, 0.0]


def test_outputs_of_several_types_are_added_in_the_wider_one(tmp_path: Path) -> None:
    """70,000 is no float16."""
    half = finished(
        helper.make_graph(
            [helper.make_node("Cast", ["obs"], ["actions"], to=TensorProto.FLOAT16)],
            "half",
            [helper.make_tensor_value_info("obs", TensorProto.FLOAT, ["batch", 2])],
            [helper.make_tensor_value_info("actions", TensorProto.FLOAT16, ["batch", 2])],
        ),
        None,
    )
    contract = document(
        inputs={"obs": {"terms": ["joint_pos"]}}, action={"output": "actions", "added": ["encoder.latent"]}
    )
    path = put(tmp_path, contract, half, encoder=affine_model({"obs": 2}, {"latent": 7e4 * np.eye(2)}))
    with OnnxPolicy(load_policy(path)) as policy:
        policy.obs["obs"][:] = [[1.0, 2.0]]
        policy.obs["encoder.obs"][:] = [[1.0, -1.0]]
        policy.act(policy.obs, policy.out)
        assert policy.action.tolist() == [[70_001.0, -69_998.0]]


def spread_model(rows: int) -> onnx.ModelProto:
    """An output of so many rows, whatever the batch is."""
    nodes = [
        helper.make_node("ReduceMean", ["obs"], ["mean"], keepdims=0),
        helper.make_node("Expand", ["mean", "shape"], ["latent"]),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("obs", TensorProto.FLOAT, ["batch", 2])],
        [helper.make_tensor_value_info("latent", TensorProto.FLOAT, [rows, 2])],
        [numpy_helper.from_array(np.array([rows, 2]), "shape")],
    )
    return finished(graph, None)


def test_an_output_with_other_rows_than_worlds_is_refused(tmp_path: Path) -> None:
    main = affine_model({"obs": 5}, {"actions": ACT})
    path = put(tmp_path, document(), main, encoder=spread_model(5))
    with pytest.raises(ContractError) as caught:
        OnnxPolicy(load_policy(path), nworld=3)
    assert str(caught.value) == (
        "output 'encoder.latent' does not fit term 'network_output' of input 'obs': found float32[5, 2], expected "
        "[3, 2]. Correct dim in policy.toml"
    )


def test_a_network_that_observes_nothing_is_refused(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    alone = helper.make_graph(
        [helper.make_node("Identity", ["n_in"], ["n_out"]), helper.make_node("Identity", ["n_in"], ["actions"])],
        "memory",
        [value("n_in", TensorProto.FLOAT, [1, 2])],
        [value("actions", TensorProto.FLOAT, [1, 2]), value("n_out", TensorProto.FLOAT, [1, 2])],
    )
    contract = document(inputs=None, action={"output": "encoder.latent", "added": ["actions"]})
    path = put(tmp_path, contract, finished(alone, None), encoder=affine_model({"obs": 2}, {"latent": ENCODE}))
    with pytest.raises(ContractError) as caught:
        OnnxPolicy(load_policy(path))
    assert str(caught.value) == (
        f"policy {path} observes nothing: found inputs n_in[1, 2], expected an input of the contract besides its "
        "states. Name it as [inputs.<name>], or under inputs of its [[network]], in policy.toml"
    )


def test_a_residual_is_added_to_what_a_planner_asks_for(tmp_path: Path) -> None:
    planner = {"name": "planner", "file": "planner.onnx", "every": 3, "inputs": {"plan": {"terms": ["joint_pos"]}}}
    contract = document(
        network=[planner],
        inputs={"obs": {"terms": ["joint_vel"]}},
        action={"output": "planner.actions", "added": ["actions"], "scale": 0.5},
    )
    path = put(
        tmp_path,
        contract,
        affine_model({"obs": 2}, {"actions": np.eye(2)}),
        planner=affine_model({"plan": 2}, {"actions": 10.0 * np.eye(2)}),
    )
    with OnnxPolicy(load_policy(path), nworld=2) as policy:
        seen = []
        for tick in range(5):
            if tick == 4:
                policy.reset(np.array([False, True]))
            policy.obs["planner.plan"][:] = tick
            policy.obs["obs"][:] = [[0.25, 0.5], [0.75, 1.0]]
            policy.act(policy.obs, policy.out)
            seen.append(policy.action.tolist())
    held = [[0.25, 0.5], [0.75, 1.0]]
    assert seen[:3] == [held, held, held]  # the planner looked at tick 0 alone
    assert seen[3] == [[30.25, 30.5], [30.75, 31.0]]
    assert seen[4] == [[30.25, 30.5], [40.75, 41.0]]  # a reset makes it look again, in that world only


def test_a_memory_lasts_where_its_network_does_not_run(tmp_path: Path) -> None:
    counter = {"name": "counter", "file": "counter.onnx", "every": 2, "recurrent": {"n_in": "n_out"}}
    counter["inputs"] = {"obs": {"terms": [{"name": "joint_pos", "joints": ["hip"]}]}}
    contract = document(network=[counter], action={"output": ["counter.count", "actions"]})
    contract["inputs"] = {"obs": {"terms": ["base_ang_vel"]}}
    main = affine_model({"obs": 3}, {"actions": np.ones((3, 1))})
    with OnnxPolicy(load_policy(put(tmp_path, contract, main, counter=counting_model())), nworld=2) as policy:
        assert policy.runs == 2
        counts = []
        for tick in range(6):
            if tick == 3:
                policy.reset(np.array([True, False]))
            policy.act(policy.obs, policy.out)
            counts.append(policy.action[:, 0].tolist())
    assert counts == [[1.0, 1.0], [1.0, 1.0], [2.0, 2.0], [1.0, 2.0], [1.0, 3.0], [2.0, 3.0]]


def test_outputs_side_by_side_and_those_of_every_network(tmp_path: Path) -> None:
    contract = document(action={"output": ["left", "right"]}, network=document()["network"])
    left, right = np.zeros((5, 1)), np.zeros((5, 1))
    left[0], right[3] = 1.0, 1.0
    main = affine_model({"obs": 5}, {"right": right, "left": left, "value": np.ones((5, 1))})
    path = put(tmp_path, contract, main, encoder=affine_model({"obs": 2}, {"latent": ENCODE}))
    with OnnxPolicy(load_policy(path), every_output=True) as policy:
        assert set(policy.out) == {"left", "right", "value", "encoder.latent"}
        policy.obs["obs"][0, 0], policy.obs["encoder.obs"][0] = 7.0, (3.0, 0.0)
        policy.act(policy.obs, policy.out)
        assert policy.action.tolist() == [[7.0, 3.0]]


def test_arrays_of_ones_own_serve_as_well(tmp_path: Path) -> None:
    with OnnxPolicy(load_policy(encoded(tmp_path))) as policy:
        obs = {"obs": np.array([[1, 0, 0, 0, 0]], F32), "encoder.obs": np.array([[2, 3]], F32)}
        out = {"actions": np.zeros((1, 2), F32)}
        policy.act(obs, out)
        assert out["actions"].tolist() == [[201.0, 3000.0]]
        with pytest.raises(ContractError, match=r"the array for 'obs' does not fit the policy"):
            policy.act(obs | {"obs": np.zeros((1, 4), F32)}, out)


def test_the_digest_covers_every_network(tmp_path: Path) -> None:
    before = load_policy(encoded(tmp_path)).file.sha256
    assert load_policy(tmp_path / "policy.onnx").file.sha256 == before
    save(affine_model({"obs": 2}, {"latent": 2.0 * ENCODE}), tmp_path / "encoder.onnx")
    assert load_policy(tmp_path / "policy.onnx").file.sha256 != before


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"network": [{"name": "a.b", "file": "e.onnx", "inputs": {}}]}, "network[0].name' is wrong: found 'a.b'"),
        ({"network": []}, "key 'network' is wrong: found a list [], expected 1 to 16 tables [[network]]"),
        ({"network": {"name": "x"}}, "key 'network' is wrong: found a table"),
        ({"network": [{"name": "x"}, {"name": "y"}]}, "found no file for x, y, expected one without a file"),
        (
            {"network": [{"name": "policy", "file": "e.onnx", "inputs": {"o": {"terms": ["joint_pos"]}}}]},
            "each name once",
        ),
        ({"network": [{"name": "x", "inputs": {}}]}, "MODEL itself has [inputs] and [recurrent]"),
        ({"network": [{"name": "x", "file": "e.onnx"}]}, "network[0].inputs' is missing"),
        (
            {"network": [{"name": "x", "file": "e.onnx", "every": 0, "inputs": {"o": {"terms": ["joint_pos"]}}}]},
            "every'",
        ),
        ({"inputs": {"obs": {"terms": [{"name": "network_output", "dim": 2}]}}}, "terms[0].of' is missing"),
        (
            {"inputs": {"obs": {"terms": [{"name": "network_output", "of": "encoder.latent"}]}}},
            "terms[0].dim' is missing",
        ),
        (
            {"inputs": {"obs": {"terms": [{"name": "network_output", "of": "x", "dim": 2, "history": 3}]}}},
            "expected 1, as the history of a network's output is not kept",
        ),
    ],
)
def test_tables_that_make_no_policy_are_refused(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ContractError) as caught:
        load_policy(encoded(tmp_path, **changes))
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"inputs": {"obs": {"terms": ["base_ang_vel", "joint_pos"]}}},
            "nothing uses what network 'encoder' of policy",
        ),
        ({"action": {"output": "actions", "added": ["encoder.nothing"]}}, "has no output 'nothing': found latent"),
        ({"action": {"output": "encoder.latent", "added": ["value"]}}, "output 'value' of policy"),
        ({"action": {"output": ["actions", "encoder.latent"]}}, "output 'actions + encoder.latent' of policy"),
        (
            {"inputs": {"obs": {"terms": ["joint_pos", {"name": "network_output", "of": "encoder.latent", "dim": 3}]}}},
            "output 'encoder.latent' does not fit term 'network_output' of input 'obs': found float32[1, 2], "
            "expected [1, 3]. Correct dim in policy.toml",
        ),
        (
            {
                "inputs": {
                    "obs": {
                        "terms": [
                            "base_ang_vel",
                            {"name": "network_output", "of": "encoder.latent", "index": [0, 5], "dim": 2},
                        ]
                    }
                }
            },
            "index",
        ),
    ],
)
def test_networks_that_do_not_fit_together_are_refused(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ContractError) as caught, OnnxPolicy(load_policy(encoded(tmp_path, **changes))):
        pass
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gone.onnx", "cannot read policy"),
        ("../encoder.onnx", "refers to a network outside its folder"),
        ("/etc/passwd", "refers to a network outside its folder"),
        (".", "refers to a network outside its folder"),
        ("a\x00b", "refers to a network by a path that cannot be used"),
    ],
)
def test_a_network_lies_beside_the_model(tmp_path: Path, name: str, text: str) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    save(affine_model({"obs": 2}, {"latent": ENCODE}), tmp_path / "encoder.onnx")
    network = [document()["network"][0] | {"file": name}]
    with pytest.raises(IntegrityError) as caught:
        load_policy(encoded(folder, network=network))
    assert text in str(caught.value)


def test_a_contract_of_networks_comes_back_from_its_document(tmp_path: Path) -> None:
    loaded = load_policy(encoded(tmp_path))
    written = loaded.contract.to_document()
    assert written["network"][0]["inputs"]["obs"]["terms"][0]["name"] == "joint_pos"
    assert list(written["inputs"]) == ["obs"]
    assert [network["name"] for network in written["network"]] == ["encoder", "policy"]
    again = load_policy(encoded(tmp_path, **{key: written[key] for key in ("network", "inputs", "action")}))
    assert again.contract.sha256() == loaded.contract.sha256()
