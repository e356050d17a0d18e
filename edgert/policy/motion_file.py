"""Motion files beside a model, read without trusting them: NPZ as trainers write it, and CSV.

Arrays are read out of an NPZ one by one: what a header promises is held against what the file has before anything is
allocated, nothing is unpickled, and what unpacks beyond `MAX_MOTION_BYTES` is refused.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
import zlib
from math import prod
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from edgert.contract.motion import MAX_FRAMES
from edgert.contract.spec import Contract, MotionSpec
from edgert.errors import ContractError, one_line
from edgert.files import beside, read_regular
from edgert.policy.motion import Floats, Track

MAX_MOTION_BYTES: Final = 256 << 20
"""Largest motion file, and most bytes of the arrays that are read out of it."""
MAX_LINE: Final = 100_000
MAX_NAMES: Final = 1_000
_ALIASES: Final = {
    "joint_pos": ("joint_pos",),
    "joint_vel": ("joint_vel",),
    "body_pos": ("body_pos_w", "body_pos"),
    "body_quat": ("body_quat_w", "body_quat"),
}
_HEADER: Final = re.compile(
    r"\{\s*'descr':\s*'([<>|=]?[a-zA-Z]\d{0,6})',\s*'fortran_order':\s*(True|False),"
    r"\s*'shape':\s*\(((?:\d{1,12}[, ]*){0,8})\),?\s*\}\s*"
)
"""How NumPy begins its arrays: a Python literal, of which only this form is read, and nothing evaluated."""
_ROOT: Final = 7
"""Numbers before the joints in a row of a retargeted CSV: the root's position and its quaternion."""


def read_track(model: Path, spec: MotionSpec, contract: Contract) -> Track:
    """The motion file of a contract, beside its model.

    Args:
        model: the `.onnx` file.
        spec: which file, and what it holds.
        contract: whose joints.

    Raises:
        ContractError: the file is missing, outside the model's folder, no motion, truncated or too large.
    """
    path = located(model, spec.file)
    kind = path.suffix.lower()
    if kind not in (".npz", ".csv"):
        raise ContractError(
            f"motion file {path} is of an unknown kind", found=kind or "no suffix", expected=".npz or .csv"
        )
    data = read_regular(path, "motion file", MAX_MOTION_BYTES, ContractError, expected=f"{MAX_MOTION_BYTES} bytes")
    source, digest = f"motion {one_line(path.name)}", hashlib.sha256(data).hexdigest()
    if kind == ".npz":
        return _read_npz(data, source, digest)
    return _read_csv(data, source, digest, spec, contract)


def located(model: Path, name: str) -> Path:
    """The motion file `name` of a model, in its folder or below it.

    Raises:
        ContractError: it lies elsewhere, by its name or by a link.
    """
    return beside(model, name, "motion file", ContractError)


def _read_npz(data: bytes, source: str, digest: str) -> Track:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
            wanted = ("fps", "joint_names", "body_names", *sum(_ALIASES.values(), ()))
            chosen = {name: members[name] for name in wanted if name in members}
            size = sum(member.file_size for member in chosen.values())
            if size > MAX_MOTION_BYTES:
                raise ContractError(
                    f"{source} unpacks to too much", found=f"{size} bytes", expected=f"at most {MAX_MOTION_BYTES}"
                )
            arrays = {name: _read_array(archive, member, source, name) for name, member in chosen.items()}
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError, KeyError) as error:
        # RuntimeError: an encrypted member, NotImplementedError among them; ValueError: names that are no text
        raise ContractError(
            f"{source} is no NPZ file, or a broken one", found=error or type(error).__name__, hint="Copy it again"
        ) from error
    tables = {
        ours: _table(arrays[name], source, name, 3 if ours.startswith("body") else 2)
        for ours, names in _ALIASES.items()
        for name in names
        if name in arrays
    }
    for name, width in (("body_pos", 3), ("body_quat", 4)):
        if name in tables and tables[name].shape[2] != width:
            raise ContractError(
                f"{source} has a wrong shape",
                found=f"{name} {list(tables[name].shape)}",
                expected=f"[frames, bodies, {width}]",
            )
    if not tables:
        raise ContractError(
            f"{source} holds no motion",
            found=", ".join(one_line(name) for name in list(members)[:20]) or "no arrays",
            expected="arrays joint_pos, joint_vel, body_pos_w, body_quat_w",
        )
    return Track(
        source=source,
        sha256=digest,
        hz=_fps(arrays["fps"], source) if "fps" in arrays else None,
        joints=_names(arrays.get("joint_names"), source, "joint_names"),
        bodies=_names(arrays.get("body_names"), source, "body_names"),
        joint_pos=tables.get("joint_pos"),
        joint_vel=tables.get("joint_vel"),
        body_pos=tables.get("body_pos"),
        body_quat=tables.get("body_quat"),
    )


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, source: str, name: str) -> npt.NDArray[Any]:
    """One array of an NPZ. Its header is judged before anything of the size that it promises is made."""
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ContractError(f"{source}: array '{name}' is packed in an unusual way", expected="an NPZ of numpy.savez")
    data = archive.read(member)
    width = 2 if data[6:7] == b"\1" else 4  # bytes that say how long the header is, by the version of the format
    start = 8 + width + int.from_bytes(data[8 : 8 + width], "little")
    header = _HEADER.fullmatch(data[8 + width : start].decode("latin-1")) if data[:6] == b"\x93NUMPY" else None
    if header is None:
        raise ContractError(f"{source}: '{name}' is no NumPy array of numbers or text", expected="one of numpy.savez")
    kind, fortran, axes = header.groups()
    if kind.endswith("O"):
        raise ContractError(
            f"{source}: array '{name}' holds Python objects, which are never loaded", expected="numbers or text"
        )
    shape = tuple(int(size) for size in axes.replace(",", " ").split())
    try:
        dtype = np.dtype(kind)
    except TypeError:
        dtype = np.dtype(np.void)
    size = prod(shape) * dtype.itemsize
    if dtype.kind not in "fiuUS" or len(shape) > 3 or size != len(data) - start:
        raise ContractError(
            f"{source}: array '{name}' is not what its header says, or no numbers",
            found=f"{kind} {list(shape)} in {len(data) - start} bytes",
            expected="numbers of at most three axes",
        )
    order: Literal["C", "F"] = "F" if fortran == "True" else "C"
    return np.frombuffer(data, dtype, offset=start).reshape(shape, order=order) if size else np.zeros(shape, dtype)


def _table(array: npt.NDArray[Any], source: str, name: str, axes: int) -> Floats:
    if array.dtype.kind not in "fiu" or array.ndim != axes or 0 in array.shape:
        shape = "[frames, joints]" if axes == 2 else "[frames, bodies, 3 or 4]"
        raise ContractError(
            f"{source}: array '{name}' has a wrong type or shape",
            found=f"{array.dtype}{list(array.shape)}",
            expected=f"numbers {shape}",
        )
    with np.errstate(over="ignore"):  # of longer floats; infinity is refused afterwards
        return np.array(array, np.float64)


def _fps(array: npt.NDArray[Any], source: str) -> float:
    if array.dtype.kind in "fiu" and array.size == 1 and 0.0 < array.item() <= 1e4:
        return float(array.item())
    raise ContractError(
        f"{source}: its rate 'fps' is no rate",
        found=f"{array.dtype}{list(array.shape)}",
        expected="one number, above 0 to 10000",
    )


def _names(array: npt.NDArray[Any] | None, source: str, what: str) -> tuple[str, ...]:
    if array is None:
        return ()
    if array.dtype.kind not in "US" or array.ndim != 1 or not 1 <= len(array) <= MAX_NAMES:
        raise ContractError(f"{source}: '{what}' is no list of names", found=f"{array.dtype}{list(array.shape)}")
    try:
        names = tuple(item if isinstance(item, str) else item.decode() for item in array.tolist())
    except ValueError as error:  # bytes that are not UTF-8, or characters beyond Unicode
        raise ContractError(f"{source}: '{what}' is no list of names", found="bytes that are no text") from error
    if len(set(names)) < len(names):
        raise ContractError(f"{source}: '{what}' has a name twice", expected="each name once")
    return names


def _read_csv(data: bytes, source: str, digest: str, spec: MotionSpec, contract: Contract) -> Track:
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ContractError(f"{source} is not UTF-8 text", found=error.reason, expected="CSV") from error
    lines = [line for line in lines if line.strip()]
    if len(lines) > MAX_FRAMES + 1 or any(len(line) > MAX_LINE for line in lines):
        raise ContractError(f"{source} is too large", found=f"{len(lines)} lines", expected=f"at most {MAX_FRAMES}")
    header = [part.strip() for part in lines[0].split(",")] if lines and not _is_number(lines[0].split(",")[0]) else []
    rows = lines[1:] if header else lines
    if not rows:
        raise ContractError(f"{source} has no frames", expected="a line of numbers for each frame")
    try:
        table = np.loadtxt(rows, np.float64, comments=None, delimiter=",", ndmin=2)
    except ValueError as error:
        raise ContractError(
            f"{source} is no table of numbers", found=error, expected="as many numbers in each line, with commas"
        ) from error
    joints = spec.joints or contract.joints
    columns, count = table.shape[1], len(joints)
    if columns not in (count, _ROOT + count):
        raise ContractError(
            f"{source} has another number of columns than joints",
            found=columns,
            expected=f"{count}, the joints, or {_ROOT + count}: position and quaternion of the root before them",
            hint="Name the joints of its columns, in their order, as [motion] joints in policy.toml",
        )
    rooted = columns == _ROOT + count
    named = tuple(header[-count:]) if sorted(header[-count:]) == sorted(joints) else ()
    layout = f"the root's position, its quaternion {spec.quat_order}, {count} joints" if rooted else f"{count} joints"
    return Track(
        source=source,
        sha256=digest,
        joint_pos=table[:, columns - count :],
        body_pos=table[:, None, :3] if rooted else None,
        body_quat=table[:, None, 3:_ROOT] if rooted else None,
        bodies=(spec.bodies or ("",)) if rooted else (),
        joints=named,
        notes=(f"{source}: its columns are taken for {layout}" + (", named by its first line" if named else ""),),
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
