"""A thousand worlds as one vector environment: the loop of every trainer (`train_ppo.py` is a whole one)."""

import time

import gymnasium
import numpy as np

envs = gymnasium.make_vec("edgert:edgert/Cartpole-v0", num_envs=1024, autoreset_mode="SameStep")
observation, info = envs.reset(seed=0)
rng = np.random.default_rng(0)
started, steps = time.perf_counter(), 100
for _ in range(steps):
    action = rng.uniform(-1.0, 1.0, (envs.num_envs, 1)).astype(np.float32)  # a trainer's policy acts here
    observation, reward, terminated, truncated, info = envs.step(action)
seconds = time.perf_counter() - started
print(f"{envs.num_envs * steps / seconds:,.0f} steps/s, mean reward {reward.mean():.4f}")
envs.close()
