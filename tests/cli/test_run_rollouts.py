"""`edgert run rollouts` as a user types it: what it prints, how it ends."""

from __future__ import annotations

import itertools
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from gym_examples import NACT, POINT, linear
from rollout_examples import TASKS, breaking, changed_sim, wild
from support import Command, linear_model, quadruped_document, save

from edgert.cli.live import LiveLine
from edgert.cli.run_tables import rollouts_table
from edgert.rollout import RolloutOptions, open_rollouts, read

ROOT = Path(__file__).resolve().parents[2]
QUICK = ("--num-envs", "2", "--seconds", "0.1")

COMMAND = Command("run", "rollouts")
ran, refused, as_json = COMMAND.ran, COMMAND.refused, COMMAND.told


KEYS = {
    "policy", "policy_sha256", "contract_sha256", "sim", "scene", "device", "device_chip", "provider", "physics_device",
    "physics", "num_envs", "seed", "control_hz", "randomise", "seconds", "steps", "steps_per_s", "real_time_factor",
    "outcome", "episodes", "cut_off", "falls", "fall_rate", "safety_stops", "returns", "episode_length", "tracking",
    "notes", "placement", "disclosure",
}  # fmt: skip


def test_json_has_the_promised_keys(capsys: pytest.CaptureFixture[str]) -> None:
    report = as_json(capsys, "--num-envs", "3", "--seconds", "2.5", "--seed", "4")
    assert report.keys() == KEYS
    assert (report["num_envs"], report["seconds"], report["steps"], report["seed"]) == (3, 2.5, 125, 4)
    assert report["tracking"].keys() >= {"stretches", "vx_m_s", "vy_m_s", "wz_rad_s"}
    assert report["tracking"]["vx_m_s"].keys() == {"asked", "mean", "error", "ci95", "rmse", "worst"}
    assert report["fall_rate"] == {"mean": 0.0, "ci95": [0.0, pytest.approx(0.5615, abs=1e-4)]}


def test_it_prints_what_the_library_reports(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--command", "0.5", "0", "0.1", "--pushes", "0.5", "1", "--friction", "0.5", "0.9", "--mass", "0", "1")
    ours = as_json(capsys, *QUICK, *arguments, "--gains", "0.9", "1.1", "--delay", "0", "0.01", "--no-randomise")
    options = RolloutOptions(
        num_envs=2,
        seconds=0.1,
        command=(0.5, 0.0, 0.1),
        pushes=(0.5, 1.0),
        friction=(0.5, 0.9),
        mass=(0.0, 1.0),
        gains=(0.9, 1.1),
        delay=(0.0, 0.01),
        randomise=False,
    )
    with open_rollouts(options) as session:
        theirs = session.report(session.run())
    timing = {"disclosure", "steps_per_s", "real_time_factor"}
    assert {k: v for k, v in ours.items() if k not in timing} == {k: v for k, v in theirs.items() if k not in timing}
    assert ours["randomise"] == {
        "friction": [0.5, 0.9],
        "friction_geoms": list(TASKS["quadruped"].randomise.friction_geoms),
        "mass_add_kg": [0.0, 1.0],
        "mass_body": "trunk",
        "kp": [0.9, 1.1],
        "kd": [0.9, 1.1],
        "delay_s": [0.0, 0.01],
        "push_interval_s": 1.0,
        "push_speed_m_s": 0.5,
    }


def test_the_same_seed_gives_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    first, second, other = (as_json(capsys, *QUICK, "--seed", seed)["returns"] for seed in ("3", "3", "4"))
    assert first == second != other


def test_summary_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = ran(capsys, "--num-envs", "4", "--seconds", "3", "--command", "0", "0", "0")
    assert code == 0
    assert "\x1b" not in out + err
    lines = {line.split()[0]: " ".join(line.split()[1:]) for line in out.splitlines()}
    assert lines["outcome"] == "completed"
    assert lines["worlds"] == "4, 3 s each at 50 Hz"
    assert lines["episodes"] == "4 ended, 150 ± 0 steps"
    assert lines["falls"] == "0 (0.0 %, 95 % interval 0.0 … 49.0 %)"
    assert re.fullmatch(r"[\d.]+ ± [\d.]+", lines["return"])
    assert re.fullmatch(
        r"[+-]0\.0\d\d ± 0\.\d{3} for \+0\.000 m/s asked, rms error 0\.0\d\d, worst 0\.0\d\d", lines["vx"]
    )
    assert "rad/s asked" in lines["wz"]
    assert re.fullmatch(r"0\.0\d\d m/s at worst when told to stand", lines["drift"])
    assert re.fullmatch(r"[\d,]+ steps/s, \d+ × real time", lines["speed"])
    running = (
        "running policy.onnx on cpu (CPUExecutionProvider), physics MuJoCo on cpu, sim quadruped, 4 worlds, 3 s each"
    )
    assert running in err.splitlines()
    assert err.startswith("input obs: 50 = base_lin_vel(body, origin, × 2) 3 + ")


def test_summary_of_goals_and_successes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _, out, _ = ran(capsys, wild("arm_reach", tmp_path), "--sim", "arm_reach", "--num-envs", "2")
    assert re.search(r"goal error +median [\d.]+ mm, p95 [\d.]+ mm\n", out)
    assert re.search(r"success +0 \(0\.0 %, 95 % interval 0\.0 … 65\.8 %\)\n", out)


def test_summary_without_an_episode() -> None:
    """Every figure is missing, and none is made up."""
    with open_rollouts(RolloutOptions(num_envs=2, seconds=1.0)) as session:
        text = rollouts_table(session.report(session.run(stop=lambda: True)))
    assert re.search(r"episodes +0 ended, none\n", text)
    assert re.search(r"falls +no episode ended\n", text)
    assert re.search(r"return +none\n", text)


def test_falls_are_counted_and_no_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report = as_json(capsys, wild("quadruped", tmp_path), "--num-envs", "2", "--seconds", "1")
    assert report["falls"] == report["episodes"] > 2
    assert report["cut_off"] > 0  # worlds that began again
    assert report["fall_rate"]["mean"] == report["falls"] / (report["episodes"] + report["cut_off"])


def test_a_run_that_is_stopped_early_does_not_know_of_falls_alone(tmp_path: Path) -> None:
    with open_rollouts(RolloutOptions(model=wild("quadruped", tmp_path), num_envs=8, seconds=5.0)) as session:
        steps = session.worlds.steps  # some world begins again while others are still in their first episode
        report = session.report(session.run(stop=lambda: bool(steps.min() == 0 < steps.max())))
    assert 0 < report["falls"] == report["episodes"] < 8
    assert report["fall_rate"]["mean"] == report["falls"] / (report["episodes"] + report["cut_off"]) < 1.0


def test_a_safety_stop_exits_3(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = breaking("arm_reach", tmp_path, float("nan"), column=25, above=0.4)
    arguments = (model, "--sim", "arm_reach", "--num-envs", "6", "--seconds", "0.1")
    report = as_json(capsys, *arguments, code=3)
    assert report["safety_stops"] > 0
    code, out, err = ran(capsys, *arguments)
    assert code == 3
    stops = report["safety_stops"]
    assert re.search(rf"safety stops +{stops}\n", out)
    assert err.splitlines()[-1] == (
        f"edgert: safety stop: {stops} episodes ended, as the policy gave no usable number or physics diverged"
    )


def test_a_bare_scene(capsys: pytest.CaptureFixture[str]) -> None:
    scene = str(TASKS["quadruped"].scene)
    code, out, err = ran(capsys, "--sim", scene, *QUICK)
    assert code == 0
    assert "the scene draws no commands: every world is asked for 0.5, 0, 0" in err
    assert re.search(r"return +none\n", out)
    assert re.search(r"falls +0 \(0\.0 %\)\n", out)  # one sample, whatever the number of worlds
    assert "±" not in out


def test_every_world_is_recorded(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report = as_json(capsys, *QUICK, "--record", str(tmp_path / "r"))
    (file,) = (tmp_path / "r").iterdir()
    assert report["recording"] == str(file)
    recording = read(tmp_path / "r")
    assert [episode.steps for episode in recording] == [5, 5]
    assert recording[0].header["policy_sha256"] == report["policy_sha256"]
    returns = [episode.info["return"] for episode in recording]
    assert report["returns"]["mean"] == pytest.approx(sum(returns) / 2)
    _, _, err = ran(capsys, *QUICK, "--record", str(tmp_path / "r"))
    assert "recorded 10 steps into " in err
    assert len(read(tmp_path / "r")) == 4


def test_an_environment(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = str(linear(tmp_path, outputs=(("first", NACT), ("second", NACT))))
    arguments = (model, "--env", POINT, "--output", "second", "--num-envs", "3", "--seconds", "2")
    report = as_json(capsys, *arguments, "--record", str(tmp_path / "r"))
    assert (report["env"], report["num_envs"], report["steps"], report["output"]) == (POINT, 3, 20, "second")
    recording = read(tmp_path / "r")
    assert sum(episode.steps for episode in recording) == 60
    assert "output.first" in recording[0].columns
    code, out, err = ran(capsys, *arguments)
    assert code == 0
    assert re.search(r"environment +edgert-test/Point-v0, 3 × 2 s, 20 steps each\n", out)
    assert "3 environments, 2 s as fast as possible; output second is the action" in err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--env", POINT, "--sim", "quadruped"], "--sim cannot go with --env: the environment decides"),
        (["--env", POINT, "--pushes", "1", "1"], "--pushes cannot go with --env: the environment decides"),
        (["--env", POINT, "--trials"], "--trials cannot go with --env"),
        (["--env", POINT, "--no-randomise"], "--no-randomise cannot go with --env"),
        (["--output", "actions"], "--output goes with --env; a contract names the output in [action]"),
        (["--trials", "--record", "x"], "--record cannot go with --trials; record the run of one command"),
        (["--trials", "--num-envs", "4"], "--num-envs cannot go with --trials: the task sets the conditions"),
        (
            ["--trials", "--pushes", "1", "1", "--delay", "0", "0"],
            "--pushes, --delay cannot go with --trials: the task sets the conditions",
        ),
        (["--num-envs", "0"], "Invalid value for '--num-envs': 0 is not in the range x>=1"),
        (["--friction", "1"], "Option '--friction' requires 2 arguments"),
        (["--seed", "-1"], "Invalid value for '--seed'"),
    ],
)
def test_usage_errors(capsys: pytest.CaptureFixture[str], arguments: list[str], text: str) -> None:
    line = refused(capsys, *arguments)
    assert line.startswith(text)
    assert re.search(r"\. See edgert( run rollouts)? --help$", line)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["--friction", "1", "0.5"],
            "--friction is wrong: found (1.0, 0.5), expected LOW HIGH with 1e-05 <= LOW <= HIGH",
        ),
        (["--pushes", "nan", "1"], "--pushes is wrong: found (nan, 1.0)"),
        (["--seconds", "0"], "--seconds is out of range: found 0.0, expected above 0 to 86400"),
        (["--sim", "hexapod"], "unknown sim 'hexapod': expected one of arm_reach, cartpole, quadruped"),
        (["--device", "tpu:0"], "unknown device 'tpu:0': expected"),
        (["nowhere.onnx"], "cannot read policy nowhere.onnx: found No such file or directory"),
        (["--sim", "nowhere.xml"], "cannot read scene nowhere.xml: found No such file or directory"),
    ],
)
def test_wrong_values(capsys: pytest.CaptureFixture[str], arguments: list[str], text: str) -> None:
    assert refused(capsys, *QUICK, *arguments).startswith(text)


def test_a_place_that_cannot_be_recorded_into_is_refused_first(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "mine.txt").write_text("x")
    for arguments in ([], ["--env", POINT]):
        line = refused(capsys, "nowhere.onnx", *arguments, "--record", str(tmp_path))
        assert line.startswith(f"folder {tmp_path} holds other things than a recording: found mine.txt")


def test_options_of_the_project_file_do_not_stop_trials(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("edgert.toml").write_text("[run.rollouts]\nnum-envs = 7\n")
    report = as_json(capsys, "--trials", "--sim", trials_sim(tmp_path, 0.0), wild("cartpole", tmp_path))
    assert report["num_envs"] == 5


def trials_sim(folder: Path, min_success: float) -> str:
    """A cartpole with short trials, which a wild policy passes if nothing is asked of it."""
    changes = {"episode_s": 0.3, "success.hold_s": 0.0, "trials": {"num_envs": 5, "min_success": min_success}}
    return changed_sim("cartpole", folder, changes)


def test_trials_that_pass(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ("--trials", "--sim", trials_sim(tmp_path, 0.0), wild("cartpole", tmp_path))
    report = as_json(capsys, *arguments)
    assert (report["passed"], report["outcome"], report["num_envs"]) == (True, "completed", 5)
    assert [row["name"] for row in report["trials"]] == ["all"]
    code, out, _ = ran(capsys, *arguments)
    assert code == 0
    assert re.search(r"verdict +passed\n", out)
    assert re.search(r"policy +\S+ sha256 [0-9a-f]{64}\n", out)
    assert re.search(r"task +cartpole, 5 worlds \(seeds 0 …\) × 0\.3 s\n", out)
    assert re.search(r"varied +kp 0\.9 1\.1; kd 0\.9 1\.1; noise joint_pos 0\.002, joint_vel 0\.02\n", out)
    assert re.search(r"\nall +\d+ % +0 of 5 .* passed$", out.rstrip())


def test_trials_that_fail_exit_5(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ("--trials", "--sim", trials_sim(tmp_path, 1.0), wild("cartpole", tmp_path))
    report = as_json(capsys, *arguments, code=5)
    assert report["passed"] is False
    code, out, _ = ran(capsys, *arguments)
    assert code == 5
    assert re.search(r"verdict +not passed\n", out)
    assert re.search(r"success 0\.\d{3}, at least 1$", out.rstrip())


def test_trials_by_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trials = {"num_envs": 2, "seconds": 2.0, "max_falls": 0, "max_drift_m_s": 0.5, "commands": [[0.0, 0.0, 0.0]]}
    sim = changed_sim("quadruped", tmp_path, {"trials": trials | {"within": {"vx_m_s": 0.5}}})
    code, out, _ = ran(capsys, "--trials", "--sim", sim)
    assert code == 0
    header, first, drawn = out.splitlines()[-3:]
    columns = "asked vx m/s (worst error) vy m/s (worst error) wz rad/s (worst error) drift m/s falls return verdict"
    assert " ".join(header.split()) == columns
    number = r"[+-]\d\.\d{3} ± \d\.\d{3} \(\d\.\d{3}\) +"
    assert re.fullmatch(rf"0, 0, 0 +{number * 3}0\.\d{{3}} +0 of 2 +[\d.]+ ± [\d.]+ +passed", first)
    assert re.fullmatch(r"drawn +(\(\d\.\d{3}\) +){3}.*0 of 2 +[\d.]+ ± [\d.]+ +passed", drawn)


def test_trials_of_a_policy_that_falls(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Nothing was followed for long enough to be measured."""
    trials = {"num_envs": 2, "seconds": 1.0, "max_falls": 0, "within": {"vx_m_s": 0.5}, "commands": [[0.5, 0.0, 0.0]]}
    sim = changed_sim("quadruped", tmp_path, {"trials": trials})
    kick = save(linear_model(bias=8.0, document=quadruped_document()), tmp_path / "kick.onnx")
    code, out, _ = ran(capsys, str(kick), "--trials", "--sim", sim)
    assert code == 5
    assert re.search(r"0\.5, 0, 0 .* \d+ falls, at most 0; vx_m_s error unknown, at most 0\.5\n", out)


def test_a_task_without_trials(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sim = changed_sim("quadruped", tmp_path, {"trials": None})
    assert refused(capsys, "--trials", "--sim", sim) == (
        "task 'quadruped' has no trials. Add [trials] to its task.toml"
    )


def program(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "edgert", "run", "rollouts", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def stopped(process: subprocess.Popen[str], pattern: str) -> tuple[str, str]:
    """What a process printed that got Ctrl-C as soon as a line on stderr matched."""
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line)
        if re.search(pattern, line):
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    err = "".join(seen) + err
    assert process.returncode == 130, err
    assert "Traceback" not in err
    return out, err


def test_ctrl_c_keeps_what_was_done_and_exits_130(tmp_path: Path) -> None:
    """After a line of progress, of which there is one a second."""
    process = program("--num-envs", "32", "--seconds", "3600", "--json", "--record", str(tmp_path / "r"))
    out, err = stopped(process, r"^32 worlds, [\d.]+ of 3600 s, [\d,]+ steps/s, \d+ × real time$")
    report = json.loads(out)
    assert report["outcome"] == "interrupted"
    assert 0 < report["steps"] < 180_000
    recording = read(tmp_path / "r")
    assert recording.torn == ()
    assert sum(episode.steps for episode in recording) == 32 * report["steps"]
    assert f"recorded {32 * report['steps']} steps into {report['recording']}" in err


def test_ctrl_c_in_trials_exits_130() -> None:
    out, _ = stopped(program("--trials", "--json"), r"^trial 0, 0, 0: 100 worlds, [\d.]+ of 20 s, ")
    report = json.loads(out)
    assert (report["outcome"], report["passed"], report["trials"]) == ("interrupted", False, [])


def test_progress_comes_once_a_second(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody can redraw a line, here by a clock that moves 10 ms with each of 350 steps; nothing else is said."""
    hundredths = itertools.count()
    monkeypatch.setattr("edgert.cli.run_rollouts.LiveLine", lambda: LiveLine(lambda: next(hundredths) / 100))
    code, _, err = ran(capsys, "--num-envs", "2", "--seconds", "7")
    lines = [line for line in err.splitlines() if "steps/s" in line]
    assert code == 0
    assert [line.split(",")[1] for line in lines] == [" 2.0 of 7 s", " 4.0 of 7 s", " 6.0 of 7 s"]
    assert all(re.fullmatch(r"2 worlds, [\d.]+ of 7 s, [\d,]+ steps/s, \d+ × real time", line) for line in lines)
    (running,) = [at for at, line in enumerate(err.splitlines()) if line.startswith("running ")]
    assert err.splitlines()[running + 1 :] == lines


def test_pyarrow_is_only_imported_to_record() -> None:
    code = (
        "import sys; from edgert.cli.main import run; "
        "assert run(['run', 'rollouts', '--num-envs', '2', '--seconds', '0.1']) == 0; "
        "print([name for name in ('warp', 'torch', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def keys(value: object, free: tuple[str, ...] = ("randomise", "disclosure")) -> set[str]:
    """Every key of a report and of the objects in it, but not the names of what is randomised, nor the disclosure."""
    if isinstance(value, list):
        return {key for entry in value for key in keys(entry)}
    if not isinstance(value, dict):
        return set()
    return {*value, *(key for name, entry in value.items() if name not in free for key in keys(entry))}


def section(title: str) -> str:
    text = (ROOT / "docs/json.md").read_text(encoding="utf-8")
    return text.split(f"## `edgert {title}`\n")[1].split("\n## ")[0]


def test_every_json_key_is_documented(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    told = as_json(
        capsys, "--num-envs", "2", "--seconds", "2", "--command", "0", "0", "0", "--record", str(tmp_path / "r")
    )
    goal = as_json(capsys, wild("arm_reach", tmp_path), "--sim", "arm_reach", "--num-envs", "2")
    found = keys(told) | keys(goal)
    assert {"drift_m_s", "goal_error_m", "p95", "success_rate", "recording", "command"} <= found
    assert [key for key in sorted(found) if f"`{key}`" not in section("run rollouts --json")] == []


def test_every_json_key_of_trials_is_documented(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report = as_json(capsys, "--trials", "--sim", trials_sim(tmp_path, 0.0), wild("cartpole", tmp_path))
    text = section("run rollouts --trials --json")
    inner = {key for row in report["trials"] for key in row}
    assert [key for key in sorted(inner | {"trials", "passed", "outcome"}) if f"`{key}`" not in text] == []
    whole = text + section("run rollouts --json")
    assert [key for key in sorted(keys(report)) if f"`{key}`" not in whole] == []


def test_help_names_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = ran(capsys, "-h")
    asked = ("--sim", "--num-envs", "--seconds", "--json", "--pushes", "--friction", "--mass", "--gains", "--delay")
    assert [name for name in (*asked, "--record", "--trials", "--env") if name not in out] == []
