"""Reading ONNX files that nobody vouches for."""

from __future__ import annotations

import contextlib
import hashlib
import io
import zipfile
from pathlib import Path

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import linear_model, quadruped_document, save

from edgert.device import find_device
from edgert.errors import EdgertError, IntegrityError
from edgert.policy import OnnxPolicy, load_policy
from edgert.policy.model import read_policy


def external(path: Path, location: str = "policy.onnx.data") -> Path:
    """A model whose weights lie in a file beside it."""
    model = linear_model(document=quadruped_document(), bias=0.25)
    onnx.save_model(model, path, save_as_external_data=True, location=location, size_threshold=0)
    return path


def relocated(path: Path, location: str) -> Path:
    model = onnx.load_model(path, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location
    return save(model, path)


def test_digest_of_a_single_file_is_its_sha256(tmp_path: Path) -> None:
    path = save(linear_model(), tmp_path / "policy.onnx")
    assert read_policy(path).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_digest_covers_external_data_and_its_name(tmp_path: Path) -> None:
    path = external(tmp_path / "policy.onnx")
    before = read_policy(path)
    assert before.external == ("policy.onnx.data",)
    data = tmp_path / "policy.onnx.data"
    changed = bytearray(data.read_bytes())
    changed[0] ^= 1
    data.write_bytes(changed)
    assert read_policy(path).sha256 != before.sha256


def test_digest_does_not_depend_on_the_models_own_name(tmp_path: Path) -> None:
    path = external(tmp_path / "policy.onnx")
    before = read_policy(path).sha256
    assert read_policy(path.rename(tmp_path / "walk.onnx")).sha256 == before


def test_model_with_external_data_runs(tmp_path: Path) -> None:
    path = external(tmp_path / "policy.onnx")
    with OnnxPolicy(load_policy(str(path)), find_device("cpu")) as policy:
        policy.action[:] = float("nan")
        policy.act(policy.obs, policy.out)
        assert (policy.action == 0.25).all()


def test_missing_external_data_is_named(tmp_path: Path) -> None:
    path = external(tmp_path / "policy.onnx")
    (tmp_path / "policy.onnx.data").unlink()
    with pytest.raises(IntegrityError) as caught:
        read_policy(path)
    assert str(caught.value) == (
        f"policy {path} keeps its weights in 'policy.onnx.data', which is not there: expected "
        f"{tmp_path / 'policy.onnx.data'}. Copy that file beside the model"
    )


def test_truncated_external_data_is_refused(tmp_path: Path) -> None:
    path = external(tmp_path / "policy.onnx")
    data = tmp_path / "policy.onnx.data"
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(IntegrityError, match=r"is truncated or belongs to another model: found 100 bytes"):
        read_policy(path)


def test_external_data_of_a_sparse_value_is_found_too(tmp_path: Path) -> None:
    """Tensors hide in many places; onnxruntime would read this one from the working folder, undigested."""

    def change(model: onnx.ModelProto) -> None:
        sparse = model.graph.sparse_initializer.add()
        sparse.values.name, sparse.values.data_type = "hidden", onnx.TensorProto.FLOAT
        sparse.values.data_location = onnx.TensorProto.EXTERNAL
        entry = sparse.values.external_data.add()
        entry.key, entry.value = "location", "hidden.data"

    path = save(linear_model(change=change), tmp_path / "policy.onnx")
    with pytest.raises(IntegrityError, match=r"keeps its weights in 'hidden\.data', which is not there"):
        read_policy(path)


def test_metadata_twice_is_refused(tmp_path: Path) -> None:
    def change(model: onnx.ModelProto) -> None:
        model.metadata_props.add().key = "edgert.contract"

    path = save(linear_model(document=quadruped_document(), change=change), tmp_path / "policy.onnx")
    with pytest.raises(IntegrityError, match=r"has metadata twice: found edgert\.contract, expected each key once"):
        read_policy(path)


def test_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "policy.onnx"
    path.symlink_to(path)
    with pytest.raises(IntegrityError, match="cannot read policy"):
        read_policy(path)


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "", ".", "a/../../b"])
def test_external_data_outside_the_folder_is_refused(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(bytes(4000))
    path = relocated(external(folder / "policy.onnx"), location)
    with pytest.raises(IntegrityError, match="refers to a data file outside its folder"):
        read_policy(path)


def test_external_data_through_a_link_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    path = external(folder / "policy.onnx")
    (folder / "policy.onnx.data").rename(tmp_path / "elsewhere")
    (folder / "policy.onnx.data").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(IntegrityError, match="outside its folder"):
        read_policy(path)


@pytest.mark.parametrize("location", ["a\0b", "x" * 5000])
def test_external_data_by_an_impossible_name_is_refused(tmp_path: Path, location: str) -> None:
    path = relocated(external(tmp_path / "policy.onnx"), location)
    with pytest.raises(IntegrityError, match="refers to a data file by a path that cannot be used"):
        read_policy(path)


def zipped(name: str) -> bytes:
    """A ZIP archive that begins with a file of that name."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(name, "{}")
    return packed.getvalue()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "is empty: expected an ONNX model"),
        (b"not a model, but text", "is not an ONNX model, or a truncated one"),
        (b"PK\x03\x04rest of a zip", "is a PyTorch file (TorchScript or pickle), which edgert never loads"),
        (b"\x1f\x8b\x08\x00rest", "is a package (gzip), as kinfer's are, not the model itself"),
        (zipped("policy/manifest.json"), "is a package (zip) around a model, not the model itself: expected an ONNX"),
        (zipped("walk.onnx"), "Unpack it, and name the .onnx file in it, with its manifest beside it"),
        (zipped("policy/data.pkl"), "is a PyTorch file (TorchScript or pickle), which edgert never loads"),
        (b"\x80\x02pickled", "is a PyTorch file (TorchScript or pickle), which edgert never loads"),
        (
            b"\x80\x05pickled",
            "Export the policy as ONNX: with torch.onnx.export, or as Isaac Lab's and rsl_rl's play.py",
        ),
        (b'\x48\x00\x00\x00\x00\x00\x00\x00{"w":', "is a safetensors file: weights without the network"),
        (b"\x89HDF\r\n\x1a\n", "is an HDF5 file: a Keras model or data"),
        (b"\x1c\x00\x00\x00TFL3", "is a TensorFlow Lite model"),
        (
            b"version https://git-lfs.github.com/spec/v1",
            "is a Git LFS pointer, not the file itself: expected an ONNX model",
        ),
        (b"\n<!DOCTYPE html><html>", "is a web page, not the file itself"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, text: str) -> None:
    path = tmp_path / "policy.onnx"
    path.write_bytes(content)
    with pytest.raises(IntegrityError) as caught:
        read_policy(path)
    assert text in str(caught.value)


def test_folder_and_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match=r"is a folder: expected a file in it"):
        read_policy(tmp_path)
    with pytest.raises(IntegrityError, match=r"cannot read policy .*: found No such file or directory"):
        read_policy(tmp_path / "absent.onnx")


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.999])
def test_truncated_model_is_refused(tmp_path: Path, keep: float) -> None:
    whole = linear_model(document=quadruped_document()).SerializeToString()
    path = tmp_path / "policy.onnx"
    path.write_bytes(whole[: int(len(whole) * keep)])
    with pytest.raises(EdgertError):
        OnnxPolicy(load_policy(str(path)), find_device("cpu"))


WHOLE = linear_model(document=quadruped_document()).SerializeToString()


@settings(max_examples=60, deadline=None)
@given(position=st.integers(0, len(WHOLE) - 1), value=st.integers(0, 255))
def test_no_changed_byte_gives_a_traceback(tmp_path_factory: pytest.TempPathFactory, position: int, value: int) -> None:
    changed = bytearray(WHOLE)
    changed[position] = value
    path = tmp_path_factory.mktemp("mutated") / "policy.onnx"
    path.write_bytes(changed)
    with contextlib.suppress(EdgertError):
        OnnxPolicy(load_policy(str(path)), find_device("cpu")).close()
