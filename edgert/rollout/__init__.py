"""Closed-loop runs over many worlds."""

from edgert.rollout.closed_loop import Tracking, follow

__all__ = ["Tracking", "follow"]
