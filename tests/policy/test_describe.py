"""What is said of a model, without running it."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support import finished, linear_model, quadruped_document, save

from edgert.policy.describe import MAX_LISTED, describe_model
from edgert.policy.model import read_policy


def described(model, path):
    report = describe_model(read_policy(save(model, path)))
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    return report


def test_a_linear_model(tmp_path):
    model = linear_model(dim=5, nact=3, document=quadruped_document())
    model.producer_name, model.producer_version = "trainer", "1.2"
    path = tmp_path / "policy.onnx"
    assert described(model, path) == {
        "path": str(path),
        "policy_sha256": read_policy(path).sha256,
        "size_bytes": path.stat().st_size,
        "external_data": [],
        "ir_version": 9,
        "opsets": {"ai.onnx": 17},
        "producer": "trainer 1.2",
        "inputs": [{"name": "obs", "shape": ["batch", 5], "dtype": "float32"}],
        "outputs": [{"name": "actions", "shape": ["batch", 3], "dtype": "float32"}],
        "parameters": 5 * 3 + 3,
        "nodes": 1,
        "operators": {"Gemm": 1},
        "metadata": [{"key": "edgert.contract", "characters": len(model.metadata_props[0].value)}],
        "left_out": {},
    }


def test_weights_in_other_places_count_too(tmp_path):
    """In constants, in the branches of an If, and as sparse values; whole numbers are no parameters."""
    shape = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    branch = helper.make_graph(
        [helper.make_node("Identity", ["inner"], ["y"])], "branch", [], [shape],
        [numpy_helper.from_array(np.zeros(2, np.float32), "inner")],
    )  # fmt: skip
    value = numpy_helper.from_array(np.zeros((2, 3), np.float32), "value")
    index = numpy_helper.from_array(np.zeros(7, np.int64), "index")
    nodes = [
        helper.make_node("Constant", [], ["c"], value=value),
        helper.make_node("Constant", [], ["i"], value=index),
        helper.make_node("If", ["flag"], ["y"], then_branch=branch, else_branch=branch),
    ]
    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [])
    graph = helper.make_graph(nodes, "policy", [flag], [shape])
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.ones(4, np.float64), "s"), numpy_helper.from_array(np.arange(4), "at"), [100]
    )
    graph.sparse_initializer.append(sparse)
    report = described(finished(graph, None), tmp_path / "policy.onnx")
    assert report["parameters"] == 6 + 2 * 2 + 4
    assert report["operators"] == {"Constant": 2, "Identity": 2, "If": 1}
    assert report["nodes"] == 5
    assert report["inputs"] == [{"name": "flag", "shape": [], "dtype": "bool"}]


def test_external_data_is_named_with_its_size(tmp_path):
    model = linear_model(dim=50, nact=12)
    onnx.save_model(model, tmp_path / "policy.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    report = describe_model(read_policy(tmp_path / "policy.onnx"))
    assert report["external_data"] == [{"name": "w.bin", "size_bytes": (tmp_path / "w.bin").stat().st_size}]
    assert report["parameters"] == 50 * 12 + 12


def test_names_are_printable_and_lists_bounded(tmp_path):
    model = linear_model(dim=2, nact=1)
    model.producer_name = "\x1b[2Jevil\n" + "x" * 5000
    for number in range(MAX_LISTED + 7):
        entry = model.metadata_props.add()
        entry.key, entry.value = f"key\x1b{number}", "v" * number
    report = described(model, tmp_path / "policy.onnx")
    assert len(report["metadata"]) == MAX_LISTED
    assert report["left_out"] == {"metadata": 7}
    assert report["metadata"][3] == {"key": "key\\x1b3", "characters": 3}
    assert report["producer"].startswith("\\x1b[2Jevil x")
    assert len(report["producer"]) < 700


@pytest.mark.parametrize(
    ("change", "shape", "dtype"),
    [
        (lambda tensor: tensor.ClearField("shape"), None, "float32"),
        (lambda tensor: tensor.shape.dim[0].Clear(), [None, 2], "float32"),
        (lambda tensor: setattr(tensor, "elem_type", TensorProto.BFLOAT16), ["batch", 2], "bfloat16"),
        (lambda tensor: setattr(tensor, "elem_type", 99), ["batch", 2], "unknown type 99"),
    ],
)
def test_odd_inputs(tmp_path, change, shape, dtype):
    model = linear_model(dim=2, nact=1, change=lambda model: change(model.graph.input[0].type.tensor_type))
    report = described(model, tmp_path / "policy.onnx")
    assert report["inputs"] == [{"name": "obs", "shape": shape, "dtype": dtype}]


def test_an_input_that_is_no_tensor(tmp_path):
    model = linear_model(dim=2, nact=1)
    model.graph.input[0].type.sequence_type.elem_type.tensor_type.elem_type = TensorProto.FLOAT
    assert described(model, tmp_path / "policy.onnx")["inputs"][0]["dtype"] == "sequence"
