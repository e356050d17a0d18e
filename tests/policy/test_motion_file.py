"""Motion files: what they hold, names, order, rate, and every way to be wrong."""

from __future__ import annotations

import io
import os
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import tracking
from hypothesis import given, settings
from hypothesis import strategies as st

from edgert.contract.document import parse_contract
from edgert.contract.motion import Motion
from edgert.errors import ContractError, EdgertError
from edgert.policy import motion_file
from edgert.policy.motion import make_motion
from edgert.policy.motion_file import read_track

TABLES = tracking.reference()
BODIES = ["pelvis", "torso"]


def npz(**changes: Any) -> bytes:
    arrays = {"fps": np.array([50]), **tracking.network_tables(TABLES)} | changes
    return tracking.npz(**{name: array for name, array in arrays.items() if array is not None})


def read(folder: Path, data: bytes | str, name: str = "walk.npz", **spec: Any) -> Motion:
    if isinstance(data, str):
        data = data.encode()
    (folder / name).write_bytes(data)
    motion = {"file": name, "anchor": "torso", "bodies": BODIES} | spec
    contract = parse_contract(tracking.document({k: v for k, v in motion.items() if v is not None}), "test")
    assert contract.motion is not None
    return make_motion(read_track(folder / "policy.onnx", contract.motion, contract), contract.motion, contract)


def read_csv(folder: Path, text: str, **spec: Any) -> Motion:
    return read(folder, text, "walk.csv", **({"bodies": None, "hz": 50, "quat_order": "xyzw"} | spec))


def refused(folder: Path, data: bytes | str, name: str = "walk.npz", **spec: Any) -> str:
    with pytest.raises(ContractError) as caught:
        read(folder, data, name, **spec)
    return str(caught.value)


def refused_csv(folder: Path, text: str, **spec: Any) -> str:
    with pytest.raises(ContractError) as caught:
        read_csv(folder, text, **spec)
    return str(caught.value)


def test_an_npz_as_trainers_write_it(tmp_path: Path) -> None:
    motion = read(tmp_path, npz(body_lin_vel_w=np.zeros((40, 2, 3)), extra=np.array("text")))
    np.testing.assert_array_equal(motion.joint_pos, TABLES["joint_pos"])
    np.testing.assert_array_equal(motion.joint_vel, TABLES["joint_vel"])
    np.testing.assert_array_equal(motion.anchor_pos, TABLES["torso_pos"])
    np.testing.assert_allclose(motion.anchor_quat, TABLES["torso_quat"], atol=1e-15)
    assert (motion.frames, motion.hz, motion.anchor, motion.loop) == (40, 50.0, "torso", False)
    assert motion.notes == ("motion walk.npz: 50 Hz, 40 frames",)
    assert len(motion.sha256) == 64


def test_joints_and_bodies_go_by_name(tmp_path: Path) -> None:
    order = [2, 0, 1]
    swapped = npz(
        joint_pos=TABLES["joint_pos"][:, order],
        joint_vel=TABLES["joint_vel"][:, order],
        body_pos_w=np.stack([TABLES["torso_pos"], TABLES["base_pos"]], axis=1),
        body_quat_w=np.stack([TABLES["torso_quat"], TABLES["base_quat"]], axis=1),
    )
    names = [tracking.JOINTS[i] for i in order]
    motion = read(tmp_path, swapped, joints=names, bodies=BODIES[::-1])
    np.testing.assert_array_equal(motion.joint_pos, TABLES["joint_pos"])
    np.testing.assert_array_equal(motion.anchor_pos, TABLES["torso_pos"])
    wrong = read(tmp_path, swapped)
    assert np.abs(wrong.joint_pos - TABLES["joint_pos"]).max() > 0.1  # type: ignore[operator]


def test_names_in_the_file_come_first(tmp_path: Path) -> None:
    order = [1, 2, 0]
    data = npz(
        joint_pos=TABLES["joint_pos"][:, order],
        joint_vel=None,
        joint_names=np.array([tracking.JOINTS[i] for i in order]),
        body_names=np.array(BODIES),
    )
    motion = read(tmp_path, data, bodies=None)
    np.testing.assert_array_equal(motion.joint_pos, TABLES["joint_pos"])
    np.testing.assert_array_equal(motion.anchor_pos, TABLES["torso_pos"])


def test_quaternions_of_the_other_order(tmp_path: Path) -> None:
    tables = tracking.network_tables(TABLES)
    motion = read(tmp_path, npz(body_quat_w=tables["body_quat_w"][..., [1, 2, 3, 0]]), quat_order="xyzw")
    np.testing.assert_allclose(motion.anchor_quat, TABLES["torso_quat"], atol=1e-15)


def test_joints_that_only_one_of_them_knows(tmp_path: Path) -> None:
    four = np.concatenate([TABLES["joint_pos"][:, :2], np.ones((40, 1))], axis=1)
    motion = read(tmp_path, npz(joint_pos=four, joint_vel=four), joints=["waist_yaw", "waist_pitch", "tail"])
    assert motion.joint_pos is not None
    assert motion.joint_vel is not None
    np.testing.assert_array_equal(motion.joint_pos[:, 2], tracking.DEFAULT[2])
    np.testing.assert_array_equal(motion.joint_vel[:, 2], 0.0)
    assert motion.notes[1:] == (
        "motion walk.npz does not move arm: held at the default pose in it",
        "motion walk.npz also moves tail, which the policy does not have: left out",
    )


def test_resampling_is_linear_and_along_the_arc(tmp_path: Path) -> None:
    slow = {name: table[::5] for name, table in TABLES.items()}
    tables = tracking.network_tables(slow) | {"fps": 10}
    tables["body_quat_w"][3:6] *= -1.0  # the same orientations
    motion = read(tmp_path, tracking.npz(**tables))
    assert motion.notes == ("motion walk.npz: 10 Hz, 8 frames, resampled to 50 Hz, 36 frames",)
    assert motion.frames == 36
    assert motion.hz == 50.0
    assert motion.joint_pos is not None
    assert motion.anchor_quat is not None
    for frame in range(36):
        low, part = divmod(frame, 5)
        high, part = min(low + 1, 7), part / 5
        np.testing.assert_allclose(
            motion.joint_pos[frame], (1 - part) * slow["joint_pos"][low] + part * slow["joint_pos"][high], atol=1e-12
        )
        oracle, turn = slow["torso_quat"][low].copy(), np.zeros(3)
        mujoco.mju_subQuat(turn, slow["torso_quat"][high], slow["torso_quat"][low])
        mujoco.mju_quatIntegrate(oracle, turn, part)
        np.testing.assert_allclose(abs(motion.anchor_quat[frame] @ oracle), 1.0, atol=1e-12)
    jumps = np.abs(np.diff(motion.anchor_quat, axis=0)).max()
    assert jumps < 0.05


def test_a_rate_that_is_no_multiple(tmp_path: Path) -> None:
    motion = read(tmp_path, npz(fps=30.0))
    assert motion.frames == 1 + 39 * 50 // 30
    assert motion.joint_pos is not None
    times = np.arange(motion.frames) / 50.0
    np.testing.assert_allclose(motion.joint_pos[:, 1], np.interp(times, np.arange(40) / 30, TABLES["joint_pos"][:, 1]))


def test_missing_velocities_are_differences(tmp_path: Path) -> None:
    motion = read(tmp_path, npz(joint_vel=None))
    assert motion.notes == ("motion walk.npz: 50 Hz, 40 frames, joint velocities from differences of its positions",)
    np.testing.assert_allclose(motion.joint_vel[1:-1], TABLES["joint_vel"][1:-1], atol=1e-3)  # type: ignore[index]


def test_bodies_without_names_are_left_out(tmp_path: Path) -> None:
    motion = read(tmp_path, npz(), bodies=None)
    assert motion.anchor_pos is None
    assert "has poses of 2 bodies without names, which are left out" in motion.notes[1]


def test_a_csv_of_roots_and_joints(tmp_path: Path) -> None:
    motion = read_csv(tmp_path, tracking.csv(TABLES))
    np.testing.assert_allclose(motion.joint_pos, TABLES["joint_pos"], atol=1e-8)
    np.testing.assert_allclose(motion.anchor_pos, TABLES["base_pos"], atol=1e-8)
    np.testing.assert_allclose(motion.anchor_quat, TABLES["base_quat"], atol=1e-8)
    assert motion.anchor == ""
    assert motion.notes == (
        "motion walk.csv: 50 Hz, 40 frames, joint velocities from differences of its positions",
        "motion walk.csv: its columns are taken for the root's position, its quaternion xyzw, 3 joints",
    )


def test_a_csv_of_joints_with_a_header_that_names_them(tmp_path: Path) -> None:
    order = [1, 0, 2]
    rows = "\n".join(",".join(map(repr, row[order].tolist())) for row in TABLES["joint_pos"])
    named = read_csv(tmp_path, ",".join(tracking.JOINTS[i] for i in order) + "\n" + rows)
    np.testing.assert_array_equal(named.joint_pos, TABLES["joint_pos"])
    assert named.notes[1] == "motion walk.csv: its columns are taken for 3 joints, named by its first line"
    other = read_csv(tmp_path, "a,b,c\n" + rows)
    np.testing.assert_array_equal(other.joint_pos, TABLES["joint_pos"][:, order])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "motion walk.csv has no frames: expected a line of numbers for each frame"),
        ("a,b,c\n", "motion walk.csv has no frames"),
        ("1,2\n3,4\n", "has another number of columns than joints: found 2, expected 3, the joints, or 10: position"),
        ("1,2,3\n4,5\n", "is no table of numbers"),
        ("1,2,3\n4,x,5\n", "is no table of numbers: found could not convert string 'x' to float64"),
        ("1,2,3\n", "motion walk.csv has an impossible number of frames: found 1, expected 2 to 100000"),
        ("1,2,3\nnan,5,6\n", "has a number in joint_pos that is not finite or absurd: found nan in frame 1"),
        ("1,2,3\n1e13,5,6\n", "has a number in joint_pos that is not finite or absurd: found 1e+13 in frame 1"),
        ("1,2,3,0,0,0,2,1,1,1\n" * 3, "has an orientation that is no unit quaternion: found norm 2 in frame 0"),
        ("1,2,3,0,0,0,0,1,1,1\n" * 3, "has an orientation that is no unit quaternion: found norm 0 in frame 0"),
    ],
)
def test_csv_that_is_no_motion(tmp_path: Path, text: str, said: str) -> None:
    assert said in refused_csv(tmp_path, text)


def test_a_csv_without_a_rate(tmp_path: Path) -> None:
    assert refused_csv(tmp_path, "1,2,3\n4,5,6\n", hz=None) == (
        "motion walk.csv does not say its rate: found no fps. Give its frames a second as [motion] hz in policy.toml"
    )


def test_a_csv_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    with pytest.raises(ContractError, match=r"motion walk\.csv is not UTF-8 text"):
        read(tmp_path, b"\xff\xfe1,2,3", "walk.csv", bodies=None)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"joint_pos": np.zeros((40, 4))}, "found 4 columns in joint_pos, expected 3: waist_yaw, waist_pitch, arm"),
        ({"joint_pos": np.zeros((39, 3))}, "has tables of different lengths: found frames: joint_pos 39, joint_vel 40"),
        ({"joint_pos": np.zeros((40, 3, 1))}, "'joint_pos' has a wrong type or shape: found float64[40, 3, 1]"),
        ({"joint_pos": np.zeros((0, 3))}, "'joint_pos' has a wrong type or shape"),
        ({"joint_pos": np.full((40, 3), "1")}, "'joint_pos' has a wrong type or shape: found <U1[40, 3]"),
        ({"joint_pos": np.full((40, 3), np.nan)}, "has a number in joint_pos that is not finite or absurd"),
        ({"joint_pos": np.zeros((40, 3), complex)}, "array 'joint_pos' is not what its header says, or no numbers"),
        ({"joint_vel": np.array([None])}, "array 'joint_vel' holds Python objects, which are never loaded"),
        ({"body_pos_w": np.zeros((40, 2, 4))}, "has a wrong shape: found body_pos [40, 2, 4]"),
        ({"body_pos_w": np.zeros((40, 3, 3))}, "has positions and quaternions of different numbers of bodies"),
        (
            {"body_quat_w": np.ones((40, 2, 4))},
            "has an orientation that is no unit quaternion: found norm 2 in frame 0",
        ),
        ({"fps": np.zeros(1)}, "its rate 'fps' is no rate"),
        ({"fps": np.array([50, 30])}, "its rate 'fps' is no rate: found int64[2]"),
        ({"fps": np.nan}, "its rate 'fps' is no rate"),
        ({"fps": None}, "does not say its rate"),
        ({"fps": 1e-3}, "has an impossible length at the control rate: found 1950001 frames"),
        ({"joint_names": np.array(["a", "a", "b"])}, "'joint_names' has a name twice"),
        ({"joint_names": np.array(["a", "b", "c"])}, "moves no joint of the policy: found a, b, c"),
        ({"joint_names": np.zeros(3)}, "'joint_names' is no list of names"),
        ({"joint_names": np.array([b"\xff", b"a", b"b"])}, "'joint_names' is no list of names: found bytes"),
    ],
)
def test_npz_that_is_no_motion(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    assert said in refused(tmp_path, npz(**changes))


def test_rates_that_contradict_each_other(tmp_path: Path) -> None:
    assert refused(tmp_path, npz(), hz=30) == (
        "motion walk.npz has another rate than the contract says: found 50 Hz, expected 30 Hz. Leave [motion] hz out"
    )


def test_the_pose_of_one_other_body_is_kept_as_that(tmp_path: Path) -> None:
    tables = {"body_pos_w": TABLES["base_pos"][:, None], "body_quat_w": TABLES["base_quat"][:, None]}
    motion = read(tmp_path, npz(**tables), bodies=["pelvis"])
    assert motion.anchor == "pelvis"
    np.testing.assert_array_equal(motion.anchor_pos, TABLES["base_pos"])


def test_bodies_that_do_not_fit(tmp_path: Path) -> None:
    assert refused(tmp_path, npz(), bodies=["torso", "pelvis", "arm"]) == (
        "motion walk.npz has another number of bodies than [motion] bodies names: found 2, expected 3: torso, pelvis, "
        "arm"
    )
    assert refused(tmp_path, npz(), anchor=None) == (
        "motion walk.npz has no pose of the policy's anchor: found no [motion] anchor, expected one of its bodies "
        "pelvis, torso. Correct [motion] anchor or bodies in policy.toml"
    )


def test_an_npz_of_something_else(tmp_path: Path) -> None:
    assert refused(tmp_path, tracking.npz(weights=np.zeros(3))) == (
        "motion walk.npz holds no motion: found weights, expected arrays joint_pos, joint_vel, body_pos_w, body_quat_w"
    )
    assert "is no NPZ file, or a broken one: found File is not a zip file" in refused(tmp_path, b"junk")
    assert "'joint_pos' is no NumPy array" in refused(tmp_path, zipped(b"junk"))


def zipped(data: bytes, name: str = "joint_pos.npy", kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", kind) as archive:
        archive.writestr(name, data)
    return buffer.getvalue()


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (
            npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000, 3)}"),
            "is not what its header says, or no numbers: found <f8 [1000000000000, 3] in 0 bytes",
        ),
        (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 3)}", b"x" * 24), "is no NumPy array"),
        (npy("{'descr': '<f7', 'fortran_order': False, 'shape': (1, 3)}", b"x" * 24), "header says"),
        (npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"cos\nsystem\n"), "never loaded"),
        (npy("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,)}", b"x" * 8), "is no NumPy array"),
        (npy("[" * 200), "is no NumPy array"),
        (npy("{'descr': '<f8'}"), "is no NumPy array"),
        (b"", "is no NumPy array"),
        (b"\x93NUMPY\x02", "is no NumPy array"),
    ],
)
def test_headers_that_lie(tmp_path: Path, data: bytes, said: str) -> None:
    assert said in refused(tmp_path, zipped(data))


def test_what_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(motion_file, "MAX_MOTION_BYTES", 100_000)
    bomb = zipped(b"\0" * 1_000_000)
    assert len(bomb) < 10_000
    assert refused(tmp_path, bomb) == (
        "motion walk.npz unpacks to too much: found 1000000 bytes, expected at most 100000"
    )


def test_other_packings_are_refused(tmp_path: Path) -> None:
    assert "is packed in an unusual way" in refused(tmp_path, zipped(b"x", kind=zipfile.ZIP_BZIP2))


@pytest.mark.parametrize("name", ["../walk.npz", "/etc/walk.npz", "", "sub/../../walk.npz", "a\0.npz"])
def test_motions_outside_the_models_folder_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "walk.npz").write_bytes(npz())
    folder = tmp_path / "inner"
    folder.mkdir()
    with pytest.raises(ContractError) as caught:
        motion_file.located(folder / "policy.onnx", name)
    assert "refers to a motion file" in str(caught.value)


def test_links_out_of_the_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "walk.npz").write_bytes(npz())
    folder = tmp_path / "inner"
    folder.mkdir()
    os.symlink(tmp_path / "walk.npz", folder / "walk.npz")
    with pytest.raises(ContractError, match="refers to a motion file outside its folder"):
        motion_file.located(folder / "policy.onnx", "walk.npz")


def test_files_that_are_not_there_or_of_no_known_kind(tmp_path: Path) -> None:
    document = tracking.document({"file": "walk.npz", "anchor": "torso"})
    contract = parse_contract(document, "test")
    assert contract.motion is not None
    with pytest.raises(ContractError, match=r"cannot read motion file .*walk\.npz: found No such file"):
        read_track(tmp_path / "policy.onnx", contract.motion, contract)
    assert refused(tmp_path, b"", "walk.pkl") == (
        f"motion file {tmp_path / 'walk.pkl'} is of an unknown kind: found .pkl, expected .npz or .csv"
    )
    os.mkfifo(tmp_path / "walk.npz")
    with pytest.raises(ContractError, match="is no regular file"):
        read_track(tmp_path / "policy.onnx", contract.motion, contract)


GOOD = npz()


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=4), st.booleans())
def test_no_mutation_of_a_file_is_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]], cut: bool
) -> None:
    data = bytearray(GOOD)
    for place, value in changes:
        data[place] = value
    folder = tmp_path_factory.mktemp("motion")
    with suppress(EdgertError):
        motion = read(folder, bytes(data[: changes[0][0]] if cut else data))
        assert np.isfinite(motion.joint_pos).all()  # type: ignore[arg-type]


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet='0123456789.,-e\n\r \tnaxif"#', max_size=60))
def test_no_text_is_a_traceback(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    with suppress(EdgertError):
        assert read_csv(tmp_path_factory.mktemp("motion"), text).frames >= 2
