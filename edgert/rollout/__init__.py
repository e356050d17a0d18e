"""Closed-loop runs over many worlds, and what they leave: episodes, recorded and read back."""

from edgert.rollout.closed_loop import Rollouts, RolloutSession, open_rollouts
from edgert.rollout.folder import FolderSink
from edgert.rollout.options import RolloutOptions
from edgert.rollout.recorder import Recorder
from edgert.rollout.recording import Episode, Recording, read
from edgert.rollout.sink import Column, MemorySink, Sink

__all__ = [
    "Column",
    "Episode",
    "FolderSink",
    "MemorySink",
    "Recorder",
    "Recording",
    "RolloutOptions",
    "RolloutSession",
    "Rollouts",
    "Sink",
    "open_rollouts",
    "read",
]
