"""Watching: recorded states as a video."""

from edgert.view.video import VideoInfo, check_video, write_video

__all__ = ["VideoInfo", "check_video", "write_video"]
