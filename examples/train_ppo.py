"""Train a policy for a sim with PPO and export it as ONNX, the contract and the normaliser inside.

    pip install -e ".[cpu,train]"
    python examples/train_ppo.py --sim quadruped --out my_quadruped

Writes `policy.onnx`, `curve.csv` and a model card (`README.md`) to --out. The same seed and package versions on the
same machine give the same policy. An interrupted run has its latest policy on disk.

The algorithm is plain PPO (Schulman et al., 2017, arXiv:1707.06347) with generalised advantage estimation and a
learning rate that follows the KL divergence, on the vector environment in autoreset mode SAME_STEP.
"""

from __future__ import annotations

import argparse
import csv
import json
import platform
import shlex
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import gymnasium
import mujoco
import numpy as np
import onnx
from gymnasium.spaces import flatdim
from onnx import TensorProto, helper, numpy_helper

try:
    import torch
    from torch import Tensor, nn
except ModuleNotFoundError:
    sys.exit('train_ppo: torch is not installed. Run: pip install -e ".[cpu,train]"')

import edgert
from edgert.task.env import TaskVecEnv

LAMBDA = 0.95
CLIP, ENTROPY, VALUE = 0.2, 0.004, 1.0
EPOCHS, MINIBATCHES, TARGET_KL = 5, 4, 0.012


def network(sizes: tuple[int, ...], last_gain: float) -> nn.Sequential:
    """A multilayer perceptron with ELU between its layers and orthogonal weights."""
    layers: list[nn.Module] = []
    for i, (a, b) in enumerate(pairwise(sizes)):
        last = i == len(sizes) - 2
        linear = nn.Linear(a, b)
        nn.init.orthogonal_(linear.weight, last_gain if last else 2.0**0.5)
        nn.init.zeros_(linear.bias)
        layers += [linear] if last else [linear, nn.ELU()]
    return nn.Sequential(*layers)


class Normaliser:
    """Running mean and variance of observations (Chan et al., 1979: parallel update)."""

    def __init__(self, dim: int) -> None:
        self.mean = torch.zeros(dim)
        self.var = torch.ones(dim)
        self.count = 1e-4

    def update(self, batch: Tensor) -> None:
        mean, var, n = batch.mean(0), batch.var(0, unbiased=False), len(batch)
        delta, total = mean - self.mean, self.count + n
        self.mean += delta * (n / total)
        self.var = (self.var * self.count + var * n + delta**2 * (self.count * n / total)) / total
        self.count = total

    def __call__(self, observation: Tensor) -> Tensor:
        return ((observation - self.mean) / torch.sqrt(self.var + 1e-8)).clamp(-10.0, 10.0)


class Learner:
    """Actor, critic and one PPO update."""

    def __init__(self, dim: int, nact: int, hidden: tuple[int, ...], learning_rate: float) -> None:
        self.actor = network((dim, *hidden, nact), 0.01)
        self.critic = network((dim, *hidden, 1), 1.0)
        self.log_std = nn.Parameter(torch.full((nact,), -0.2))
        self.parameters = [*self.actor.parameters(), *self.critic.parameters(), self.log_std]
        self.optimiser = torch.optim.Adam(self.parameters, lr=learning_rate)
        self.learning_rate = learning_rate

    def act(self, observation: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Sampled action, its log-probability, its mean, and the value."""
        mean = self.actor(observation)
        action = mean + torch.exp(self.log_std) * torch.randn_like(mean)
        return action, self.log_prob(mean, action), mean, self.critic(observation).squeeze(-1)

    def log_prob(self, mean: Tensor, action: Tensor) -> Tensor:
        scaled = (action - mean) / torch.exp(self.log_std)
        return (-0.5 * scaled**2 - self.log_std - 0.5 * float(np.log(2.0 * np.pi))).sum(-1)

    def update(self, obs: Tensor, act: Tensor, logp: Tensor, mean: Tensor, adv: Tensor, ret: Tensor) -> float:
        """A few epochs over one batch; returns the mean KL divergence of the last epoch."""
        old_std = torch.exp(self.log_std).detach().clone()
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        divergence = 0.0
        for _ in range(EPOCHS):
            kls = []
            for index in torch.randperm(len(obs)).chunk(MINIBATCHES):
                new_mean = self.actor(obs[index])
                ratio = torch.exp(self.log_prob(new_mean, act[index]) - logp[index])
                surrogate = torch.minimum(ratio * adv[index], ratio.clamp(1 - CLIP, 1 + CLIP) * adv[index]).mean()
                value_loss = (self.critic(obs[index]).squeeze(-1) - ret[index]).square().mean()
                loss = -surrogate + VALUE * value_loss - ENTROPY * self.log_std.sum()
                self.optimiser.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.parameters, 1.0)
                with torch.no_grad():
                    std = torch.exp(self.log_std)
                    kl = torch.log(std / old_std) + (old_std**2 + (mean[index] - new_mean) ** 2) / (2 * std**2) - 0.5
                    kls.append(float(kl.sum(-1).mean()))
                self.optimiser.step()
            divergence = float(np.mean(kls))
            if divergence > 3.0 * TARGET_KL:
                break
        self._follow(divergence)
        return divergence

    def _follow(self, kl: float) -> None:
        """Raise or lower the learning rate so that updates stay near the target divergence."""
        if kl > 1.5 * TARGET_KL:
            self.learning_rate = max(1e-4, self.learning_rate / 1.2)
        elif kl < 0.7 * TARGET_KL:
            self.learning_rate = min(1.5e-3, self.learning_rate * 1.2)
        for group in self.optimiser.param_groups:
            group["lr"] = self.learning_rate


def export(path: Path, learner: Learner, normaliser: Normaliser, env: TaskVecEnv) -> None:
    """Write the policy's mean action as ONNX: normaliser, layers, and the contract in the metadata."""
    contract = env.task.contract
    (name,) = contract.inputs
    constants = {"mean": normaliser.mean, "std": torch.sqrt(normaliser.var + 1e-8)}
    constants |= {"low": torch.tensor(-10.0), "high": torch.tensor(10.0)}
    nodes = [
        helper.make_node("Sub", [name, "mean"], ["centred"]),
        helper.make_node("Div", ["centred", "std"], ["scaled"]),
        helper.make_node("Clip", ["scaled", "low", "high"], ["x0"]),
    ]
    x = "x0"
    linears = [layer for layer in learner.actor if isinstance(layer, nn.Linear)]
    for i, linear in enumerate(linears):
        constants |= {f"w{i}": linear.weight, f"b{i}": linear.bias}
        last = i == len(linears) - 1
        y = contract.action.outputs[0] if last else f"y{i}"
        nodes.append(helper.make_node("Gemm", [x, f"w{i}", f"b{i}"], [y], transB=1))
        if not last:
            x = f"x{i + 1}"
            nodes.append(helper.make_node("Elu", [y], [x]))
    tensors = [numpy_helper.from_array(v.detach().numpy().astype(np.float32), k) for k, v in constants.items()]
    dims = flatdim(env.single_observation_space), len(contract.action.joints)
    graph = helper.make_graph(
        nodes,
        "policy",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", dims[0]])],
        [helper.make_tensor_value_info(contract.action.outputs[0], TensorProto.FLOAT, ["batch", dims[1]])],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="edgert")
    model.ir_version = 9
    embed(model, contract)
    onnx.checker.check_model(model, full_check=True)
    partial = path.with_suffix(".partial")
    partial.write_bytes(model.SerializeToString(deterministic=True))
    partial.replace(path)


def embed(model: onnx.ModelProto, contract: edgert.Contract) -> None:
    """Put the contract into the model's metadata."""
    entry = model.metadata_props.add()
    entry.key, entry.value = "edgert.contract", json.dumps(contract.to_document(), sort_keys=True)


def returns(rewards: Tensor, values: Tensor, ends: Tensor, last_value: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """Generalised advantages and value targets, (steps, num_envs); an end cuts the sum."""
    advantages = torch.zeros_like(rewards)
    running = torch.zeros_like(last_value)
    for t in range(len(rewards) - 1, -1, -1):
        following = last_value if t == len(rewards) - 1 else values[t + 1]
        delta = rewards[t] + gamma * following * ~ends[t] - values[t]
        running = delta + gamma * LAMBDA * running * ~ends[t]
        advantages[t] = running
    return advantages, advantages + values


def train(options: argparse.Namespace) -> None:
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads or torch.get_num_threads())
    env = TaskVecEnv(options.num_envs, sim=options.sim, autoreset_mode="SameStep", nthread=options.threads)
    n, horizon = options.num_envs, options.horizon
    dim, nact = flatdim(env.single_observation_space), len(env.task.contract.action.joints)
    learner, normaliser = Learner(dim, nact, tuple(options.hidden), 1e-3), Normaliser(dim)
    options.out.mkdir(parents=True, exist_ok=True)
    obs = torch.zeros(horizon, n, dim)
    act, mean = torch.zeros(2, horizon, n, nact)
    logp, val, rew = torch.zeros(3, horizon, n)
    ends = torch.zeros(horizon, n, dtype=torch.bool)
    observation, _ = env.reset(seed=options.seed)
    # Episodes start out of step with each other, or every world would be reset in the same one.
    env.elapsed[:] = np.random.default_rng(options.seed).integers(0, env.task.episode_steps, n)
    rows, started, steps = [], time.monotonic(), 0
    iterations = max(1, options.steps // (n * horizon))
    print(f"{iterations} iterations of {n} worlds x {horizon} steps: {iterations * n * horizon:,} environment steps")
    for iteration in range(iterations):
        parts: dict[str, list[float]] = {}
        falls = 0
        with torch.no_grad():
            for t in range(horizon):
                raw = torch.from_numpy(observation)
                normaliser.update(raw)
                obs[t] = normaliser(raw)
                act[t], logp[t], mean[t], val[t] = learner.act(obs[t])
                observation, reward, terminated, truncated, info = env.step(act[t].numpy())
                rew[t] = torch.from_numpy(reward).float()
                ends[t] = torch.from_numpy(terminated | truncated)
                falls += int(terminated.sum())
                if (truncated & ~terminated).any():  # a time limit is no end: its value stands in for what follows
                    cut = np.flatnonzero(truncated & ~terminated)
                    final = torch.from_numpy(np.stack(info["final_obs"][cut]))
                    rew[t, cut] += options.gamma * learner.critic(normaliser(final)).squeeze(-1)
                for key in info:
                    if key.startswith("reward_") or key == "is_success":
                        parts.setdefault(key, []).append(float(info[key].mean()))
            last = learner.critic(normaliser(torch.from_numpy(observation))).squeeze(-1)
        adv, ret = returns(rew, val, ends, last, options.gamma)
        kl = learner.update(*(x.flatten(0, 1) for x in (obs, act, logp, mean, adv, ret)))
        steps += n * horizon
        row = {
            "steps": steps,
            "seconds": round(time.monotonic() - started, 1),
            "reward_per_step": round(float(rew.mean()), 5),
            "falls": falls,
            "std": round(float(torch.exp(learner.log_std).detach().mean()), 4),
            "kl": round(kl, 4),
            "learning_rate": round(learner.learning_rate, 6),
            **{key: round(float(np.mean(values)), 5) for key, values in parts.items()},
        }
        rows.append(row)
        if iteration % 20 == 0 or iteration == iterations - 1:
            print(" ".join(f"{key}={value}" for key, value in row.items()), flush=True)
            export(options.out / "policy.onnx", learner, normaliser, env)
            with (options.out / "curve.csv").open("w", newline="") as file:
                writer = csv.DictWriter(file, fieldnames=rows[0].keys())
                writer.writeheader()
                writer.writerows(rows)
    env.close()
    write_card(options, rows, shlex.join(["python", *sys.argv]))


def write_card(options: argparse.Namespace, rows: list[dict[str, float]], command: str) -> None:
    """The model card: how the policy was made, how the training went and how well the result walks."""
    versions = {m.__name__: m.__version__ for m in (edgert, mujoco, torch, gymnasium, np, onnx)}
    curve = [rows[i] for i in np.linspace(0, len(rows) - 1, min(12, len(rows))).astype(int)]
    lines = [
        f"# {Path(options.sim).resolve().name}",
        "",
        f"Trained by `{command}` in {rows[-1]['seconds'] / 60:.0f} minutes, {rows[-1]['steps']:,} environment steps, "
        f"seed {options.seed}, on {platform.machine()} with {torch.get_num_threads()} threads, Python "
        f"{platform.python_version()}, " + ", ".join(f"{name} {version}" for name, version in versions.items()) + ".",
        "",
        "`curve.csv` has every iteration.",
        "",
        "| steps | seconds | reward per step | falls per iteration |",
        "|---|---|---|---|",
        *(f"| {r['steps']:,} | {r['seconds']} | {r['reward_per_step']} | {r['falls']} |" for r in curve),
        "",
    ]
    if options.evaluation:
        lines += measured(options)
    (options.out / "README.md").write_text("\n".join(lines))


def measured(options: argparse.Namespace) -> list[str]:
    """What the policy scores in the trials of its task, by the command that anybody can repeat."""
    arguments = ["run", "rollouts", str(options.out / "policy.onnx"), "--sim", options.sim, "--trials"]
    program = [sys.executable, "-m", "edgert", *arguments]
    done = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603  # our own program
    if done.returncode not in (0, 5):  # 5: a bar was missed, and the table says which
        return ["The task has no trials, or they could not be run.", ""]
    print(done.stdout)
    command = shlex.join(["edgert", *arguments])
    return [f"Measured by `{command}`:", "", "```", done.stdout.rstrip(), "```", ""]


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """The text above as it stands, and the defaults."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Help)
    parser.add_argument("--sim", default="quadruped", help="bundled sim, or path of a folder with a task.toml")
    parser.add_argument("--out", type=Path, required=True, help="folder for the policy and its card")
    parser.add_argument("--steps", type=int, default=19_200_000, help="environment steps")
    parser.add_argument("--num-envs", type=int, default=1024, help="worlds")
    parser.add_argument("--horizon", type=int, default=24, help="control steps of a world in one batch")
    parser.add_argument("--hidden", type=int, nargs="+", default=[256, 128], help="sizes of the hidden layers")
    parser.add_argument("--gamma", type=float, default=0.99, help="discount of rewards, by control step")
    parser.add_argument("--seed", type=int, default=1, help="of worlds and weights")
    parser.add_argument("--threads", type=int, default=0, help="physics and torch threads, 0: one per CPU")
    parser.add_argument(
        "--evaluation", action=argparse.BooleanOptionalAction, default=True, help="measure the result for its card"
    )
    options = parser.parse_args()
    try:
        train(options)
    except edgert.EdgertError as error:
        sys.exit(f"train_ppo: {error}")
    except KeyboardInterrupt:
        sys.exit(f"train_ppo: interrupted; the latest policy is {options.out / 'policy.onnx'}")
    print(f"wrote {options.out / 'policy.onnx'} and its card, {options.out / 'README.md'}")


if __name__ == "__main__":
    main()
