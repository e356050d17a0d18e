"""The messages of ONNX without its package."""

from __future__ import annotations

import subprocess
import sys

import onnx
import pytest

from edgert.errors import UnsupportedError
from edgert.policy import protos
from edgert.policy.protos import onnx_protos

BEFORE = """
import sys
from edgert.policy import load_policy
from edgert.policy.describe import describe_model
described = describe_model(load_policy("quadruped").file)
assert "onnx" not in sys.modules and "ml_dtypes" not in sys.modules
import onnx
from edgert.policy.protos import onnx_protos
assert onnx_protos().ModelProto is onnx.ModelProto
assert onnx.load_model(described["path"]).graph.output[0].name == "actions"
onnx.checker.check_model(onnx.load_model(described["path"]))
"""


def test_a_policy_is_read_without_the_package_which_works_afterwards() -> None:
    subprocess.run([sys.executable, "-c", BEFORE], check=True)


def test_the_messages_are_those_of_the_package() -> None:
    assert onnx_protos().ModelProto is onnx.ModelProto


def test_a_missing_package_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "onnx.onnx_ml_pb2")
    monkeypatch.setattr(protos, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match=r"onnx is not installed\. Run: pip install edgert"):
        onnx_protos()


def test_a_package_built_otherwise_is_imported_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "onnx.onnx_ml_pb2")
    monkeypatch.setattr(protos, "spec_from_file_location", lambda name, path: None)
    assert onnx_protos().ModelProto is onnx.ModelProto
