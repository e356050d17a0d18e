"""Running one policy on one body, in time."""

from edgert.runtime.session import RunOptions, Session, open_session

__all__ = ["RunOptions", "Session", "open_session"]
