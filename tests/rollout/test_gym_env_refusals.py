"""What cannot be run against an environment is refused in one line that says why."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gym_examples import DIM, DISABLED, NACT, POINT, Failing, Point, linear, register, spaced, vector
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import AutoresetMode
from onnx import TensorProto, helper, numpy_helper
from support import finished, save

from edgert.errors import ContractError, EdgertError, UnknownNameError, UnsupportedError
from edgert.rollout.gym_env import EnvRun, EnvSession, run_env


def refused(path: Path, kind: type[EdgertError] = UnsupportedError, env_id: str = POINT, **options: Any) -> str:
    with pytest.raises(kind) as caught, EnvSession(EnvRun(env_id=env_id, model=path, **options)) as session:
        session.run()
    assert type(caught.value) is kind
    line = str(caught.value)
    assert "\n" not in line
    return line.replace(str(path), "FILE")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "Nowhere-v0",
            "no environment 'Nowhere-v0': found Environment `Nowhere` doesn't exist. Write module:Env-v0 to import the "
            "module that registers it",
        ),
        ("os:Nowhere-v0", "no environment 'os:Nowhere-v0': found Environment `Nowhere` doesn't exist"),
        (
            "HalfCheetah-v9",
            "no environment 'HalfCheetah-v9': found Environment version `v9` for environment `HalfCheetah` doesn't "
            "exist. It provides versioned environments: [ `v2`, `v3`, `v4`, `v5` ]. Write module:Env-v0 to import the "
            "module that registers it",
        ),
    ],
)
def test_unknown_environments(tmp_path: Path, name: str, line: str) -> None:
    assert refused(linear(tmp_path), UnknownNameError, name) == line


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "Pendulum-v0",
            "environment 'Pendulum-v0' cannot be made: found DeprecatedEnv: Environment version v0 for `Pendulum` is "
            "deprecated. Please use `Pendulum-v1` instead",
        ),
        (
            "HalfCheetah-v2",
            "environment 'HalfCheetah-v2' needs what is not installed: found The mujoco v2 and v3 based environments "
            "have been moved to the gymnasium-robotics project (https://github.com/Farama-Foundation/"
            "gymnasium-robotics)",
        ),
        (
            "no_such_module:Env-v0",
            "environment 'no_such_module:Env-v0' needs what is not installed: found No module named 'no_such_module'. "
            "Environment registration via importing a module failed. Check whether 'no_such_module' contains env "
            "registration and can be imported. Install the package of 'no_such_module', or add its folder to "
            "PYTHONPATH",
        ),
        ("a:b:c", "environment 'a:b:c' cannot be made: found ValueError: too many values to unpack"),
        ("", "environment '' cannot be made: found Error: Malformed environment ID"),
        ("\x1b[31mred", "environment '\\x1b[31mred' cannot be made: found Error: Malformed environment ID"),
    ],
)
def test_environments_that_cannot_be_made(tmp_path: Path, name: str, line: str) -> None:
    assert refused(linear(tmp_path), UnsupportedError, name).startswith(line)


def test_a_module_is_imported_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "edgert_test_module.py").write_text(
        "import gymnasium, gym_examples\n"
        "gymnasium.register('edgert-test/Imported-v0', gym_examples.Point, disable_env_checker=True)\n"
    )
    (tmp_path / "edgert_test_exit.py").write_text("raise SystemExit('no')\n")
    monkeypatch.syspath_prepend(tmp_path)
    report = run_env(EnvRun(env_id="edgert_test_module:edgert-test/Imported-v0", model=linear(tmp_path), seconds=1.0))
    assert report["steps"] == 10
    assert refused(linear(tmp_path), env_id="edgert_test_exit:Env-v0") == (
        "environment 'edgert_test_exit:Env-v0' cannot be made: found SystemExit: no"
    )


def test_a_missing_dependency_says_what_to_install(tmp_path: Path) -> None:
    path = linear(tmp_path, [("actions", 6)], dim=17)
    code = (
        "import sys; sys.modules['imageio'] = None\n"
        "from edgert.rollout.gym_env import EnvRun, run_env\n"
        "from edgert.errors import UnsupportedError\n"
        f"try: run_env(EnvRun(env_id='HalfCheetah-v5', model={str(path)!r}))\n"
        "except UnsupportedError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == (
        "environment 'HalfCheetah-v5' needs what is not installed: found import of imageio halted; None in "
        'sys.modules. Run: pip install "gymnasium[mujoco]"\n',
        "",
    )


ACTION = "takes other actions than a flat array: found {}, expected a Box of floats with one axis"
OBSERVATION = "observes other things than a flat array: found {}, expected a Box of numbers with one axis"
TIME = (
    "does not tell its time step: found dt {}, metadata render_fps {}, expected a property dt in s, or "
    "metadata['render_fps'] in Hz, of 0.001 to 1e+06 Hz"
)


class Shy(Point):
    """Does not show what it observes."""

    @property
    def observation_space(self) -> Any:
        raise RuntimeError("not now")

    @observation_space.setter
    def observation_space(self, space: Any) -> None:
        pass


SPACES = {
    "Discrete": (spaced(action=Discrete(3)), ACTION.format("Discrete(3)")),
    "Integers": (spaced(action=Box(0, 3, (2,), np.int64)), ACTION.format("Box of int64[2]")),
    "Matrix": (spaced(action=Box(-1, 1, (2, 3))), ACTION.format("Box of float32[2, 3]")),
    "Nothing": (spaced(action=Box(-1, 1, (0,))), ACTION.format("Box of float32[0]")),
    "Dict": (spaced(Dict(a=Discrete(2))), OBSERVATION.format("Dict('a': Discrete(2))")),
    "Image": (spaced(Box(0, 255, (96, 96, 3), np.uint8)), OBSERVATION.format("Box of uint8[96, 96, 3]")),
    "Timeless": (spaced(dt=None), TIME.format(None, None)),
    "Backwards": (spaced(dt=-0.1, metadata={"render_fps": 0}), TIME.format(-0.1, 0)),
    "Fast": (spaced(dt=1e-300), TIME.format(1e-300, None)),
    "Slow": (spaced(dt=1e300), TIME.format(1e300, None)),
    "Frozen": (spaced(dt=np.inf), TIME.format(np.inf, None)),
    "Film": (spaced(dt=None, metadata={"render_fps": 10**5000}), TIME.format(None, f"{hex(10**5000)[:57]}...")),
}


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("num_envs", [1, 2])
def test_environments_of_another_kind(tmp_path: Path, name: str, num_envs: int) -> None:
    entry_point, line = SPACES[name]
    env_id = register(name, entry_point)
    assert refused(linear(tmp_path), env_id=env_id, num_envs=num_envs) == f"environment '{env_id}' {line}"


def test_an_environment_that_does_not_show_its_spaces(tmp_path: Path) -> None:
    assert refused(linear(tmp_path), env_id=register("Shy", Shy)) == (
        "environment 'edgert-test/Shy-v0' fails in telling its spaces: found RuntimeError: not now"
    )


def test_environments_that_restart_in_another_way(tmp_path: Path) -> None:
    assert refused(linear(tmp_path), env_id=DISABLED, num_envs=2) == (
        f"environment '{DISABLED}' restarts its episodes in another way: found AutoresetMode.DISABLED, expected "
        "autoreset_mode NEXT_STEP or SAME_STEP"
    )


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ("reset", "fails in reset: found KeyError: 'nowhere'"),
        ("no info", "fails in reset: found ValueError: too many values to unpack"),
        ("step", "fails in step: found RuntimeError: the wheels came off"),
        ("exit", "fails in step: found SystemExit: 3"),
        ("close", "fails in close: found OSError: stuck"),
        ("shape", "gives other observations than its space says: found float64[1, 2], expected numbers [1, 3]"),
    ],
)
def test_environments_that_fail(tmp_path: Path, fault: str, line: str) -> None:
    env_id = register(f"Failing-{fault.replace(' ', '-')}", Failing, kwargs={"fault": fault})
    assert refused(linear(tmp_path), env_id=env_id).startswith(f"environment '{env_id}' {line}")


def test_the_error_of_an_environment_is_chained(tmp_path: Path) -> None:
    env_id = register("Failing-step", Failing, kwargs={"fault": "step"})
    with pytest.raises(UnsupportedError) as caught:
        run_env(EnvRun(env_id=env_id, model=linear(tmp_path), num_envs=2))
    assert isinstance(caught.value.__cause__, RuntimeError)


class _Liar(gymnasium.vector.VectorEnv[Any, Any, Any]):
    """A vector environment that ends episodes in ways that no autoreset mode allows."""

    def __init__(self, num_envs: int, mode: AutoresetMode) -> None:
        inner = vector(mode)(num_envs)
        self.num_envs, self.metadata = num_envs, {"autoreset_mode": mode, "render_fps": 10}
        self.single_observation_space, self.single_action_space = (
            inner.single_observation_space,
            inner.single_action_space,
        )

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        return np.zeros((self.num_envs, DIM)), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        always = np.ones(self.num_envs, np.bool_)
        return np.zeros((self.num_envs, DIM)), np.zeros(self.num_envs), always, ~always, {}


@pytest.mark.parametrize(
    ("mode", "line"),
    [
        (
            AutoresetMode.NEXT_STEP,
            "ends an episode where it starts one: found an end at a reset, expected a step in between",
        ),
        (
            AutoresetMode.SAME_STEP,
            "gives no final_obs when an episode ends: found none, expected one, in autoreset mode SAME_STEP",
        ),
    ],
)
def test_vector_environments_that_break_their_mode(tmp_path: Path, mode: AutoresetMode, line: str) -> None:
    env_id = register(f"Liar-{mode.value}", Failing, vector_entry_point=_Liar, kwargs={"mode": mode})
    assert refused(linear(tmp_path), env_id=env_id, num_envs=2) == f"environment '{env_id}' {line}"


OBS = "input 'obs' of policy FILE has "
FIXED = (
    OBS + "a fixed batch: found {}, expected {}, a divisor of it, or a dynamic one. Export it with a dynamic batch axis"
)
SIZE = f"of policy FILE has another size than an action of '{POINT}': found"
FITS = f"output that fits the action of '{POINT}': found"
CHOOSE = "or one named action. Choose one with --output"


@pytest.mark.parametrize(
    ("model", "options", "line"),
    [
        (
            {"dim": 5},
            {},
            f"{OBS}another size than an observation of '{POINT}': found 5, expected 3. Name the environment that it "
            "was trained in",
        ),
        (
            {"shape": [1, 1, DIM]},
            {},
            OBS + "the wrong rank: found [1, 1, 3], an image or a sequence, expected [batch, size]",
        ),
        ({"shape": [2, DIM]}, {"num_envs": 3}, FIXED.format(2, 3)),
        ({"shape": [4, DIM]}, {}, FIXED.format(4, 1)),
        (
            {"number": TensorProto.INT64},
            {},
            OBS + "a type that observations cannot have: found tensor(int64), expected one of tensor(float), "
            "tensor(double), tensor(float16)",
        ),
        (
            {"inputs": 2},
            {},
            "policy FILE does not take one observation: found obs['batch', 3], in1['batch', 3], expected one input "
            "[batch, 3]",
        ),
        (
            {"outputs": [("actions", 3)]},
            {},
            f"output 'actions' {SIZE} actions float32[1, 3], expected float[1, 2]",
        ),
        (
            {"outputs": [("action", 1), ("mu", 2)]},
            {},
            f"output 'action' {SIZE} action float32[1, 1], expected float[1, 2]. Choose another with --output",
        ),
        (
            {"outputs": [("a", NACT), ("b", NACT)]},
            {"num_envs": 2},
            f"policy FILE has more than one {FITS} a float32[2, 2], b float32[2, 2], expected one float[2, 2], "
            + CHOOSE,
        ),
        (
            {"outputs": [("a", 1), ("b", 3)]},
            {},
            f"policy FILE has no {FITS} a float32[1, 1], b float32[1, 3], expected one float[1, 2], {CHOOSE}",
        ),
        (
            {"outputs": [("a", 1), ("b", 3)]},
            {"output": "c"},
            "policy FILE has no output 'c': expected one of a, b",
        ),
    ],
)
def test_models_that_do_not_fit(tmp_path: Path, model: dict[str, Any], options: dict[str, Any], line: str) -> None:
    assert refused(linear(tmp_path, **model), ContractError, **options) == line


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"seconds": 0.0}, "--seconds is out of range: found 0.0, expected above 0"),
        ({"seconds": float("nan")}, "--seconds is out of range: found nan, expected above 0"),
        ({"seconds": 1e9}, "the run is too long: found 1e+10 steps, expected at most 10000000"),
        ({"num_envs": 0}, "the number of environments is wrong: found 0, expected a whole number, 1 to 65536"),
        ({"seed": -1}, "--seed is wrong: found -1, expected a whole number, 0 or more"),
    ],
)
def test_wrong_options(tmp_path: Path, options: dict[str, Any], line: str) -> None:
    assert refused(linear(tmp_path), UnsupportedError, **options) == line


def test_unknown_device_and_model(tmp_path: Path) -> None:
    assert refused(linear(tmp_path), UnknownNameError, device="tpu:0").startswith("unknown device 'tpu:0'")
    with pytest.raises(UnknownNameError, match=r"no policy 'hexapod': expected an \.onnx file, or .*quadruped"):
        run_env(EnvRun(env_id=POINT, model="hexapod"))


def test_a_memory_that_does_not_last(tmp_path: Path) -> None:
    weights = {"w": (1, 24, DIM), "r": (1, 24, 8), "head": (8, NACT)}
    graph = helper.make_graph(
        [
            helper.make_node("Unsqueeze", ["obs", "zero"], ["x"]),
            helper.make_node("GRU", ["x", "w", "r"], ["", "last"], hidden_size=8),
            helper.make_node("Squeeze", ["last", "zero"], ["y"]),
            helper.make_node("MatMul", ["y", "head"], ["actions"]),
        ],
        "policy",
        [helper.make_tensor_value_info("obs", TensorProto.FLOAT, ["batch", DIM])],
        [helper.make_tensor_value_info("actions", TensorProto.FLOAT, ["batch", NACT])],
        [
            numpy_helper.from_array(np.array([0]), "zero"),
            *(numpy_helper.from_array(np.zeros(shape, np.float32), name) for name, shape in weights.items()),
        ],
    )
    path = save(finished(graph, None), tmp_path / "policy.onnx")
    assert refused(path).startswith("policy FILE has a memory that it loses at every control tick: found GRU, whose")
