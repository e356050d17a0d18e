"""Record rollouts of many worlds and read them back as arrays. Needs the extra [sync]."""

import tempfile
from pathlib import Path

import numpy as np

import edgert
from edgert.rollout import read

options = edgert.RolloutOptions(model="quadruped", num_envs=8, seconds=2.0, command=(0.8, 0.0, 0.0))
with tempfile.TemporaryDirectory() as folder:
    with edgert.open_rollouts(options) as session, session.folder(Path(folder)) as sink:
        session.run(sink=sink)
    for episode in read(folder):
        assert len(episode.observation["obs"]) == len(episode.action) + 1
        moved = np.linalg.norm(episode.qpos[-1, :2] - episode.qpos[0, :2])
        print(f"{episode.id}: {episode.info['outcome']}, {episode.steps} steps, {moved:.2f} m")
