"""Videos of recorded states: decoded again, they show what happened, in time and in full or not at all."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from edgert import RunOptions, open_session
from edgert.assets import find
from edgert.clock import FakeClock
from edgert.errors import EdgertError, UnknownNameError, UnsupportedError
from edgert.sim.gl import MISSING, Gl, choose_gl
from edgert.sim.protocol import Floats
from edgert.view import VideoInfo, check_video, write_video

HZ = 50.0
SMALL = {"width": 160, "height": 120}
BOX = "<mujoco><worldbody><light pos='0 0 3'/><body><freejoint/><geom size='.1'/></body></worldbody></mujoco>"


@pytest.fixture(scope="session")
def model() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_path(str(find("sims", "quadruped") / "scene.xml"))


@pytest.fixture(scope="session")
def walk() -> Floats:
    """Three seconds of the bundled policy, (150, 19)."""
    rows = []
    with open_session(RunOptions(real_time=False, seconds=3)) as session:
        session.run(tick=lambda *_: rows.append(session.robot.sim.view("qpos")[0].copy()))
    return np.array(rows)


@pytest.fixture
def home(model: mujoco.MjModel) -> Floats:
    """The robot standing, (19,)."""
    return np.array(model.key_qpos[0])


def decoded(path: Path) -> tuple[Any, np.ndarray]:
    """The video's stream and its pictures (frames, height, width, 3)."""
    import av

    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        pictures = np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(stream)])
        return stream, pictures


def orange(pictures: np.ndarray) -> np.ndarray:
    """Where the robot's orange covers are: nothing else in the scene is of that colour."""
    red, green, blue = np.moveaxis(pictures.astype(int), -1, 0)
    return (red > 150) & (red - blue > 90) & (green > 50)


def red(pictures: np.ndarray) -> np.ndarray:
    """Where a marker is."""
    channels = np.moveaxis(pictures.astype(int), -1, 0)
    return (channels[0] > 110) & (channels[0] > 2.6 * np.maximum(channels[1], channels[2]))


def refused(path: Path, model: mujoco.MjModel, qpos: Any, **options: Any) -> str:
    """The line of a refusal that leaves nothing behind."""
    with pytest.raises(EdgertError) as error:
        write_video(path, model, qpos, **{"hz": HZ, **SMALL, **options})
    assert list(path.parent.iterdir()) == []
    return str(error.value)


def test_a_walk_as_mp4(gl: Gl, model: mujoco.MjModel, walk: Floats, tmp_path: Path) -> None:
    path = tmp_path / "walk.mp4"
    steps: list[tuple[int, int]] = []
    clock = FakeClock()

    def progress(done: int, total: int) -> None:
        steps.append((done, total))
        clock.time_ns += 10_000_000

    info = write_video(path, model, walk, hz=HZ, progress=progress, clock=clock)
    assert info == VideoInfo(
        path=path, width=640, height=480, frames=75, fps=Fraction(25), seconds=3.0,
        size_bytes=path.stat().st_size, gl=gl, wall_s=0.75,
    )  # fmt: skip
    assert steps == [(number, 75) for number in range(1, 76)]
    assert [file.name for file in tmp_path.iterdir()] == ["walk.mp4"]

    data = path.read_bytes()
    assert 0 < data.index(b"moov") < data.index(b"mdat")  # it plays while it loads
    stream, pictures = decoded(path)
    assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
    assert stream.average_rate == 25
    assert float(stream.duration * stream.time_base) == pytest.approx(3.0)
    assert pictures.shape == (75, 480, 640, 3)
    assert (pictures.std(axis=(1, 2, 3)) > 30).all()
    assert (pictures.mean(axis=(1, 2, 3)) > 60).all()
    assert (pictures.mean(axis=(1, 2, 3)) < 200).all()
    change = np.abs(np.diff(pictures.astype(int), axis=0)).mean(axis=(1, 2, 3))
    assert (change > 0.5).all()


def test_a_walk_as_gif(gl: Gl, model: mujoco.MjModel, walk: Floats, tmp_path: Path) -> None:
    path = tmp_path / "walk.GIF"
    info = write_video(path, model, walk, hz=HZ, **SMALL)
    assert (info.frames, info.fps, info.seconds) == (38, Fraction(25, 2), pytest.approx(3.04))
    data = path.read_bytes()
    assert data.startswith(b"GIF89a")
    assert b"NETSCAPE2.0\x03\x01\x00\x00" in data  # forever
    stream, pictures = decoded(path)
    assert pictures.shape == (38, 120, 160, 3)
    assert float(stream.duration * stream.time_base) == pytest.approx(3.04)
    assert orange(pictures).any(axis=(1, 2)).all()
    assert (np.abs(np.diff(pictures.astype(int), axis=0)).mean(axis=(1, 2, 3)) > 0.5).all()


def test_a_robot_that_stands_makes_equal_pictures(gl: Gl, model: mujoco.MjModel, home: Floats, tmp_path: Path) -> None:
    write_video(tmp_path / "stand.mp4", model, [home] * 10, hz=25, **SMALL)
    _, pictures = decoded(tmp_path / "stand.mp4")
    assert np.abs(np.diff(pictures.astype(int), axis=0)).mean() < 0.1


@pytest.mark.parametrize(
    ("ending", "hz", "max_fps", "rows", "fps", "frames"),
    [
        (".mp4", 50.0, 30.0, 50, Fraction(25), 25),
        (".mp4", 60.0, 30.0, 3, Fraction(30), 2),
        (".mp4", 20.0, 30.0, 5, Fraction(20), 5),
        (".mp4", 100 / 3, 30.0, 5, Fraction(50, 3), 3),
        (".mp4", 200.0, 30.0, 8, Fraction(200, 7), 2),
        (".mp4", 0.3, 0.1, 4, Fraction(1, 10), 2),
        (".gif", 50.0, 10.0, 11, Fraction(10), 3),
        (".gif", 10.0, 30.0, 1, Fraction(10), 1),
    ],
)
def test_it_plays_in_real_time(
    gl: Gl, tmp_path: Path, ending: str, hz: float, max_fps: float, rows: int, fps: Fraction, frames: int
) -> None:
    model = mujoco.MjModel.from_xml_string(BOX)
    path = tmp_path / f"box{ending}"
    info = write_video(path, model, np.zeros((rows, 7)), hz=hz, max_fps=max_fps, width=32, height=16)
    assert (info.fps, info.frames, info.seconds) == (fps, frames, pytest.approx(float(frames / fps)))
    stream, pictures = decoded(path)
    assert pictures.shape == (frames, 16, 32, 3)
    assert float(stream.duration * stream.time_base) == pytest.approx(float(frames / fps), abs=0.005)


def test_the_camera_follows_over_20_m(gl: Gl, model: mujoco.MjModel, home: Floats, tmp_path: Path) -> None:
    rows = np.tile(home, (6, 1))
    rows[:, 0] += np.linspace(0.0, 20.0, 6)
    rows[:, 1] -= np.linspace(0.0, 7.0, 6)
    write_video(tmp_path / "far.mp4", model, rows, hz=10, width=320, height=240)
    _, pictures = decoded(tmp_path / "far.mp4")
    robot = orange(pictures)
    count = robot.sum(axis=(1, 2))
    assert (count > 40).all()
    assert (count > 0.7 * count[0]).all()
    for frame in robot:
        row, column = np.argwhere(frame).mean(axis=0)
        assert (80 < row < 160, 110 < column < 210) == (True, True)


def test_a_camera_by_name_and_one_named_track(gl: Gl, home: Floats, tmp_path: Path) -> None:
    scene = find("sims", "quadruped") / "scene.xml"
    spec = mujoco.MjSpec.from_file(str(scene))
    plain = spec.compile()
    spec.worldbody.add_camera(name="track", pos=[0, 0, 9])  # sees the robot from above, small
    tracked = spec.compile()
    for name, model, camera in (
        ("follow", plain, ""),
        ("side", plain, "side"),
        ("track", tracked, ""),
        ("named", tracked, "track"),
        ("other", tracked, "side"),
    ):
        write_video(tmp_path / f"{name}.mp4", model, [home], hz=10, camera=camera, **SMALL)
    pictures = {path.stem: decoded(path)[1] for path in tmp_path.iterdir()}
    assert (pictures["side"] == pictures["other"]).all()
    assert (pictures["track"] == pictures["named"]).all()
    for one, two in (("follow", "side"), ("follow", "track"), ("side", "track")):
        assert np.abs(pictures[one].astype(int) - pictures[two]).mean() > 5


def test_an_unknown_camera(gl: Gl, model: mujoco.MjModel, home: Floats, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError):
        write_video(tmp_path / "x.mp4", model, [home], hz=10, camera="front")
    assert refused(tmp_path / "x.mp4", model, [home], camera="front") == (
        "unknown camera 'front': expected 'tracking', 'side'"
    )
    box = mujoco.MjModel.from_xml_string(BOX)
    assert "expected none, as the model has no named camera" in refused(
        tmp_path / "x.mp4", box, np.zeros((1, 7)), camera="front"
    )


def test_markers(gl: Gl, model: mujoco.MjModel, home: Floats, tmp_path: Path) -> None:
    above = np.tile([*home[:2], home[2] + 0.3], (3, 1))
    above[1] += [0.5, 0.0, 0.0]

    def seen(**options: Any) -> np.ndarray:
        write_video(tmp_path / "x.gif", model, [home] * 3, hz=10, width=320, height=240, **options)
        return red(decoded(tmp_path / "x.gif")[1])

    assert not seen().any()
    small, large = (seen(markers=above, marker_radius_m=radius) for radius in (0.03, 0.09))
    assert (small.sum(axis=(1, 2)) > 5).all()
    assert (large.sum(axis=(1, 2)) > 4 * small.sum(axis=(1, 2))).all()
    middle = [np.argwhere(frame).mean(axis=0) for frame in large]
    assert np.linalg.norm(middle[1] - middle[0]) > 10  # pixels
    assert np.linalg.norm(middle[2] - middle[0]) < 2


def test_the_model_stays_as_it_is_and_its_buffer_may_be_small(gl: Gl, home: Floats, tmp_path: Path) -> None:
    model = mujoco.MjModel.from_xml_path(str(find("sims", "quadruped") / "scene.xml"))
    model.vis.global_.offwidth, model.vis.global_.offheight = 64, 48
    size = mujoco.mj_sizeModel(model)
    before, after = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
    mujoco.mj_saveModel(model, None, before)
    write_video(tmp_path / "x.mp4", model, [home], hz=10, **SMALL)
    mujoco.mj_saveModel(model, None, after)
    assert (before == after).all()
    assert decoded(tmp_path / "x.mp4")[1].shape == (1, 120, 160, 3)


def test_rows_may_come_one_by_one(gl: Gl, walk: Floats, model: mujoco.MjModel, tmp_path: Path) -> None:
    write_video(tmp_path / "a.gif", model, walk[:9], hz=HZ, **SMALL)
    write_video(tmp_path / "b.gif", model, (list(row) for row in walk[:9]), hz=HZ, **SMALL)
    assert (tmp_path / "a.gif").read_bytes() == (tmp_path / "b.gif").read_bytes()


def test_rows_that_are_no_states(model: mujoco.MjModel, home: Floats, tmp_path: Path) -> None:
    path = tmp_path / "x.mp4"
    assert refused(path, model, [home, home, home[:7]]) == ("state 2 has the wrong shape: found (7,), expected (19,)")
    assert refused(path, model, home) == "state 0 has the wrong shape: found (), expected (19,)"
    assert refused(path, model, []) == "there is no state to draw: expected rows of 19 numbers"
    for number, text in ((np.nan, "nan"), (-np.inf, "-inf"), (1e11, "1e+11")):
        rows = np.tile(home, (5, 1))
        rows[3, 8] = number
        assert refused(path, model, rows) == (
            f"state 3 cannot be drawn: found {text} in column 8, expected numbers up to 1e+10"
        )


def test_markers_that_do_not_fit(model: mujoco.MjModel, home: Floats, tmp_path: Path) -> None:
    path = tmp_path / "x.mp4"
    assert refused(path, model, [home] * 3, markers=np.zeros((2, 3))) == (
        "markers do not belong to the states: found 2, expected 3 rows"
    )
    assert "marker 0 has the wrong shape: found (2,)" in refused(path, model, [home], markers=[(0, 0)])
    assert "marker 0 cannot be drawn: found nan" in refused(path, model, [home], markers=[(0, 0, np.nan)])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"width": 161}, "'width' of a video is wrong: found 161, expected an even number of pixels, 16 to 4096"),
        ({"height": 0}, "'height' of a video is wrong: found 0"),
        ({"width": 8192}, "'width' of a video is wrong: found 8192"),
        ({"hz": 0.0}, "'hz' of a video is wrong: found 0.0, expected 0.01 to 100000 rows a second"),
        ({"hz": float("nan")}, "'hz' of a video is wrong: found nan"),
        ({"max_fps": -1.0}, "'max_fps' of a video is wrong: found -1.0"),
        ({"marker_radius_m": -1.0}, "'marker_radius_m' of a video is wrong: found -1.0, expected 0 to 1000 m"),
    ],
)
def test_options_out_of_range(
    model: mujoco.MjModel, home: Floats, tmp_path: Path, options: dict[str, Any], text: str
) -> None:
    assert text in refused(tmp_path / "x.mp4", model, [home], **options)


@pytest.mark.parametrize("existing", [None, b"the old one"])
@pytest.mark.parametrize("name", ["x.mp4", "x.gif"])
def test_ctrl_c_leaves_what_was_there(
    gl: Gl, model: mujoco.MjModel, walk: Floats, tmp_path: Path, name: str, existing: bytes | None
) -> None:
    if existing is not None:
        (tmp_path / name).write_bytes(existing)

    def interrupt(done: int, total: int) -> None:
        if done == 3:
            assert len(list(tmp_path.glob(".edgert-*.part"))) == 1
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        write_video(tmp_path / name, model, walk, hz=HZ, progress=interrupt, **SMALL)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == (
        {} if existing is None else {name: existing}
    )


def test_a_finished_one_replaces_an_old_one(gl: Gl, model: mujoco.MjModel, home: Floats, tmp_path: Path) -> None:
    path = tmp_path / "x.mp4"
    path.write_bytes(b"the old one")
    write_video(path, model, [home], hz=HZ, **SMALL)
    assert len(decoded(path)[1]) == 1
    (tmp_path / "like").touch()
    assert path.stat().st_mode == (tmp_path / "like").stat().st_mode


def test_places_where_nothing_can_be_written(gl: Gl, tmp_path: Path) -> None:
    (tmp_path / "folder.mp4").mkdir()
    (tmp_path / "file").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe.gif")
    before = sorted(tmp_path.iterdir())
    for path, reason in (
        (tmp_path / "none" / "x.mp4", "No such file or directory"),
        (tmp_path / "file" / "x.mp4", "Not a directory"),
        (tmp_path / f"{'x' * 300}.mp4", "File name too long"),
        (tmp_path / "folder.mp4", "a folder or device of that name"),
        (tmp_path / "pipe.gif", "a folder or device of that name"),
        (tmp_path / "nul\0.mp4", "embedded null byte"),
        (Path("/proc/x.mp4"), ""),  # not even root makes files there
    ):
        with pytest.raises(EdgertError, match="cannot be written: found ") as error:
            check_video(path)
        assert reason in str(error.value)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(gl: Gl, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(EdgertError, match=r"cannot be written: found Permission denied\. Check the folder"):
        check_video(tmp_path / "x.mp4")


@pytest.mark.parametrize(("name", "found"), [("x.avi", "the ending .avi"), ("x", "no ending")])
def test_other_kinds_of_video(tmp_path: Path, name: str, found: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        check_video(tmp_path / name)
    assert str(error.value) == f"this kind of video cannot be written: found {found}, expected .mp4 or .gif"


def test_a_check_that_passes_leaves_nothing(gl: Gl, tmp_path: Path) -> None:
    check_video(tmp_path / "x.mp4")
    (tmp_path / "old.gif").write_bytes(b"the old one")
    check_video(tmp_path / "old.gif")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"old.gif": b"the old one"}


def test_without_opengl(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="Install libegl1 libegl-mesa0 libgl1-mesa-dri, or libosmesa6"):
        check_video(tmp_path / "x.mp4", choose=lambda: choose_gl({}, lambda kind: MISSING))


def in_a_child(code: str, *arguments: str) -> str:
    """The last line of the error of a program that must fail."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1, done.stderr
    return done.stderr.strip().splitlines()[-1]


def test_without_the_encoder(tmp_path: Path) -> None:
    code = "import pathlib, sys\nsys.modules['av'] = None\nimport edgert.view\nedgert.view.{}"
    for call in ("check_video(pathlib.Path(sys.argv[1]))", "write_video(pathlib.Path(sys.argv[1]), None, [], hz=1)"):
        assert in_a_child(code.format(call), str(tmp_path / "x.mp4")) == (
            'edgert.errors.UnsupportedError: no video encoder is installed. Run: pip install "edgert[view]"'
        )
    assert list(tmp_path.iterdir()) == []


def test_importing_the_room_loads_no_encoder_and_no_opengl() -> None:
    code = "import sys, edgert.view; print([name for name in ('av', 'OpenGL') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert "av" not in done.stdout


FULL = """
import pathlib, resource, sys
import mujoco, numpy as np
from edgert.view import write_video
path, scene, limit = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
model = mujoco.MjModel.from_xml_path(scene)
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
rows = np.tile(model.key_qpos[0], (30, 1))
rows[:, 0] += np.linspace(0, 1, 30)
write_video(path, model, rows, hz=25, width=160, height=120)
raise SystemExit(f"{path.stat().st_size} bytes")
"""


@pytest.mark.parametrize(("name", "spare"), [("x.mp4", 1000), ("x.gif", 1)])
def test_a_full_disk_is_one_line_and_leaves_nothing(gl: Gl, tmp_path: Path, name: str, spare: int) -> None:
    """A limit on the size of files stands for the disk: full at once, on the way and near the end.

    Near, as H.264 differs by some bytes from run to run.
    """
    path, scene = tmp_path / name, str(find("sims", "quadruped") / "scene.xml")
    size = int(in_a_child(FULL, str(path), scene, str(1 << 30)).split()[0])
    assert path.stat().st_size == size
    path.unlink()
    for limit in (0, size // 2, size - spare):
        line = in_a_child(FULL, str(path), scene, str(limit))
        assert line == (
            f"edgert.errors.EdgertError: video {path} cannot be written: found File too large. "
            "Check the folder, its permissions and the space on the disk"
        )
        assert list(tmp_path.iterdir()) == []
