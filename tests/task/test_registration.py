"""Registration with Gymnasium: both import orders, and making environments without importing edgert."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ID = "edgert/Quadruped-v0"
CASES = {
    "gymnasium first": f"import gymnasium, edgert\nassert '{ID}' in gymnasium.registry\nenv = gymnasium.make('{ID}')",
    "edgert first": f"import edgert, gymnasium\nassert '{ID}' in gymnasium.registry\nenv = gymnasium.make('{ID}')",
    "edgert first, a part of gymnasium": f"import edgert\nfrom gymnasium.vector import VectorEnv\n"
    f"import gymnasium\nassert '{ID}' in gymnasium.registry\nenv = gymnasium.make('{ID}')",
    "edgert twice": f"import edgert, gymnasium, importlib\nimportlib.reload(edgert)\nenv = gymnasium.make('{ID}')",
    "no import": f"import gymnasium\nassert '{ID}' not in gymnasium.registry\nenv = gymnasium.make('edgert:{ID}')",
    "a vector": f"import edgert, gymnasium\nenv = gymnasium.make_vec('{ID}', num_envs=3)",
    "a vector without import": f"import gymnasium\nenv = gymnasium.make_vec('edgert:{ID}', num_envs=3)",
}
TAIL = """
observation, info = env.reset(seed=0)
env.step(env.action_space.sample())
print(type(env.unwrapped).__module__, type(env.unwrapped).__name__, observation.shape)
"""


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("case", CASES)
def test_environments_can_be_made(case: str) -> None:
    result = python(CASES[case] + TAIL)
    assert result.returncode == 0, result.stderr
    vector = "vector" in case
    expected = f"edgert.task.env {'TaskVecEnv' if vector else 'TaskEnv'} {'(3, 50)' if vector else '(50,)'}"
    assert result.stdout.strip() == expected


def test_importing_edgert_does_not_import_gymnasium() -> None:
    result = python("import sys, edgert\nassert not {'gymnasium', 'mujoco', 'onnxruntime'} & set(sys.modules)")
    assert result.returncode == 0, result.stderr


def test_the_import_hook_goes_away_once_gymnasium_is_there() -> None:
    code = (
        "import sys\nbefore = list(sys.meta_path)\nimport edgert, gymnasium\n"
        "assert [f for f in sys.meta_path if type(f).__module__.startswith('edgert')] == []\n"
        "assert gymnasium.__spec__.loader is gymnasium.__loader__\n"
        "import importlib; importlib.reload(gymnasium)\n"
    )
    result = python(code)
    assert result.returncode == 0, result.stderr


def test_the_time_limit_is_the_tasks_and_may_be_changed() -> None:
    code = (
        "import edgert, gymnasium, numpy as np\nfrom edgert import load_task\n"
        "limit = load_task('quadruped').episode_steps\n"
        f"vector = gymnasium.make_vec('{ID}', num_envs=2)\nassert vector.unwrapped._limit == limit\n"
        f"vector = gymnasium.make_vec('{ID}', num_envs=2, max_episode_steps=7)\nassert vector.unwrapped._limit == 7\n"
        f"env = gymnasium.make('{ID}', max_episode_steps=2)\nenv.reset(seed=0)\n"
        "flags = [env.step(np.zeros(12, np.float32))[3] for _ in range(2)]\nassert flags == [False, True]\n"
    )
    result = python(code)
    assert result.returncode == 0, result.stderr


def test_a_task_of_ones_own_has_its_own_length(tmp_path: Path) -> None:
    sim = tmp_path / "short"
    shutil.copytree(ROOT / "sims/quadruped", sim)
    text = (sim / "task.toml").read_text().replace("episode_s = 20.0", "episode_s = 0.1")
    (sim / "task.toml").write_text(text)
    code = (
        "import gymnasium, numpy as np\n"
        f"env = gymnasium.make('edgert:{ID}', sim={str(sim)!r})\nenv.reset(seed=0)\n"
        "flags = [env.step(np.zeros(12, np.float32))[3] for _ in range(5)]\nassert flags == [False] * 4 + [True]\n"
        f"envs = gymnasium.make_vec('{ID}', num_envs=2, sim={str(sim)!r})\nenvs.reset(seed=0)\n"
        "flags = [envs.step(np.zeros((2, 12), np.float32))[3].all() for _ in range(5)]\n"
        "assert flags == [False] * 4 + [True]\n"
    )
    result = python(code)
    assert result.returncode == 0, result.stderr


def test_arguments_reach_the_environment() -> None:
    code = (
        "import gymnasium\n"
        f"env = gymnasium.make('edgert:{ID}', command=(0.5, 0.0, 0.1), randomise=False)\n"
        "assert env.reset(seed=0)[1]['command'].tolist() == [0.5, 0.0, 0.1]\n"
        f"env = gymnasium.make_vec('edgert:{ID}', num_envs=2, autoreset_mode='SameStep', nthread=1)\n"
        "assert env.metadata['autoreset_mode'].value == 'SameStep'\n"
    )
    result = python(code)
    assert result.returncode == 0, result.stderr


def test_the_vectors_of_gymnasium_work_too() -> None:
    code = (
        f"import edgert, gymnasium\nenv = gymnasium.make_vec('{ID}', num_envs=2, vectorization_mode='sync')\n"
        "assert env.reset(seed=0)[0].shape == (2, 50)\n"
    )
    result = python(code)
    assert result.returncode == 0, result.stderr
