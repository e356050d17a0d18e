"""Running one policy on one body, in time."""

from edgert.runtime.session import Options, Session, open_session

__all__ = ["Options", "Session", "open_session"]
