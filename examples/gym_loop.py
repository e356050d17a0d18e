"""The Gymnasium loop as everybody knows it, with a trained policy in it."""

import gymnasium

import edgert

env = gymnasium.make("edgert:edgert/Quadruped-v0", command=(0.5, 0.0, 0.0))
observation, info = env.reset(seed=0)
with edgert.OnnxPolicy(edgert.load_policy("quadruped")) as policy:
    total = 0.0
    for _ in range(250):
        policy.obs["obs"][0] = observation
        policy.act(policy.obs, policy.out)
        observation, reward, terminated, truncated, info = env.step(policy.action[0])
        total += float(reward)
        if terminated or truncated:
            observation, info = env.reset()
env.close()
print(f"return {total:.2f}, velocity vx {info['velocity'][0]:.2f} m/s")
