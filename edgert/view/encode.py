"""Pictures into a file: H.264 in .mp4, or an animated .gif, by PyAV of the extra [view].

A file appears under its name only when it is complete: it is written beside it, flushed to the disk and renamed.
"""

from __future__ import annotations

import math
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edgert.errors import EdgertError, UnsupportedError, importing
from edgert.view.render import Picture
from edgert.writing import part_of, put

if TYPE_CHECKING:
    from av.container import OutputContainer
    from av.filter import Graph
    from av.filter.context import FilterContext
    from av.video.frame import VideoFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoFormat:
    """How the pictures of a video are encoded."""

    name: str
    codec: str
    pix_fmt: str
    codec_options: Mapping[str, str]
    file_options: Mapping[str, str]
    max_fps: float
    """Most pictures a second that make sense in it."""
    palette_pictures: int
    """How many pictures the colours are chosen from; 0: it holds all colours."""


FORMATS: Final = {
    ".mp4": VideoFormat(
        name="mp4",
        codec="libx264",
        pix_fmt="yuv420p",  # the one that every player and browser takes
        codec_options={"crf": "28"},
        file_options={"movflags": "+faststart"},  # the index comes first: it plays while it still loads
        max_fps=math.inf,
        palette_pictures=0,
    ),
    ".gif": VideoFormat(
        name="gif",
        codec="gif",
        pix_fmt="pal8",
        codec_options={},
        file_options={"loop": "0"},  # forever
        max_fps=15.0,
        palette_pictures=16,
    ),
}
"""By the ending of the file."""
_RGB: Final = "rgb24"


def check_encoder(ending: str) -> None:
    """Refuse an ending that is in no format, and an installation without the encoder.

    Raises:
        UnsupportedError: as above, or PyAV cannot be imported.
    """
    if ending not in FORMATS:
        raise UnsupportedError(
            "this kind of video cannot be written",
            found=f"the ending {ending}" if ending else "no ending",
            expected=" or ".join(FORMATS),
        )
    what, missing = "the video encoder PyAV", "no video encoder is installed"
    with importing("av", what=what, missing=missing, install='Run: pip install "edgert[view]"'):
        import av
    codec = FORMATS[ending].codec
    if codec not in av.codecs_available:
        raise UnsupportedError(
            f"the installed PyAV {av.__version__} lacks the encoder {codec} for {ending}",
            hint="Run: pip install --force-reinstall av",
        )


def check_place(path: Path) -> None:
    """Refuse a path where no video can be written; raises as `new_file`, and leaves nothing behind."""
    with _part(path):
        pass


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A file in the folder of `path` to write to. It becomes `path` when the block ends well, and nothing otherwise.

    Raises:
        EdgertError: the folder is missing or not writable, `path` is no regular file, or the disk fails.
    """
    with _part(path) as part:
        yield part
        with writing(path):
            put(part, path)


@contextmanager
def _part(path: Path) -> Iterator[Path]:
    with ExitStack() as stack:
        with writing(path):
            with suppress(FileNotFoundError):
                if not stat.S_ISREG(path.stat().st_mode):
                    raise EdgertError(f"video {path} cannot be written", found="a folder or device of that name")
            part = stack.enter_context(part_of(path))
        yield part


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the disk or the encoder says into a refusal that names the video."""
    from av.error import FFmpegError

    try:
        yield
    except (OSError, FFmpegError, ValueError) as error:  # ValueError: a NUL in the path
        raise EdgertError(
            f"video {path} cannot be written",
            found=getattr(error, "strerror", None) or error,
            hint="Check the folder, its permissions and the space on the disk",
        ) from error


class Encoder:
    """Encodes pictures of one size, one after the other. Make it with `open_encoder`."""

    def __init__(
        self,
        path: Path,
        container: OutputContainer,
        kind: VideoFormat,
        fps: Fraction,
        size: tuple[int, int],
        palette: Sequence[Picture],
    ) -> None:
        from av.video.stream import VideoStream

        stream = container.add_stream(kind.codec, rate=fps, options=dict(kind.codec_options))
        assert isinstance(stream, VideoStream)
        self._path = path
        self._container = container
        self._stream = stream
        self._stream.width, self._stream.height = size
        self._stream.pix_fmt = kind.pix_fmt
        self._time_base = 1 / fps
        self._count = 0
        self._palette = _Palette(palette, self._time_base) if palette else None

    def add(self, picture: Picture) -> None:
        """Encode the next picture.

        Raises:
            EdgertError: the disk is full or fails.
        """
        with writing(self._path):
            frame = _frame(picture, self._time_base, self._count)
            self._container.mux(self._stream.encode(self._palette.reduce(frame) if self._palette else frame))
        self._count += 1

    def finish(self) -> None:
        """Write what the encoder still holds and the end of the file; raises as `add` does."""
        with writing(self._path):
            self._container.mux(self._stream.encode(None))
            self._container.close()


@contextmanager
def open_encoder(
    path: Path, *, fps: Fraction, size: tuple[int, int], palette: Sequence[Picture] = ()
) -> Iterator[Encoder]:
    """An encoder into the file `path`, which appears when the block ends well.

    Args:
        path: its ending says the format.
        fps: pictures a second.
        size: width and height in pixels.
        palette: pictures that the colours of a GIF are chosen from.

    Raises:
        EdgertError: the file cannot be written.
    """
    import av
    from av.error import FFmpegError

    kind = FORMATS[path.suffix.lower()]
    with new_file(path) as part:
        with writing(path):
            container = av.open(str(part), "w", format=kind.name, container_options=dict(kind.file_options))
        try:
            encoder = Encoder(path, container, kind, fps, size, palette)
            yield encoder
            encoder.finish()
        except BaseException:
            with suppress(OSError, ValueError, FFmpegError):  # the end of an unfinished file need not be right
                container.close()
            raise


class _Palette:
    """Reduces frames to 256 colours, the same for all of them: one set costs less and does not flicker."""

    def __init__(self, pictures: Sequence[Picture], time_base: Fraction) -> None:
        from av import VideoFrame
        from av.filter import Graph

        frames = [_frame(picture, time_base, index) for index, picture in enumerate(pictures)]
        choose = Graph()
        source, sink = _source(choose, frames[0], time_base), choose.add("buffersink")
        choose.link_nodes(source, choose.add("palettegen"), sink).configure()
        for frame in (*frames, None):
            source.push(frame)
        colours = sink.pull()
        assert isinstance(colours, VideoFrame)
        colours.pts, colours.time_base = 0, time_base

        graph = Graph()
        palette = _source(graph, colours, time_base)
        use = graph.add("paletteuse", "dither=bayer:bayer_scale=5:diff_mode=rectangle")
        self._source, self._sink = _source(graph, frames[0], time_base), graph.add("buffersink")
        self._source.link_to(use, 0, 0)
        palette.link_to(use, 0, 1)
        use.link_to(self._sink)
        graph.configure()
        for frame in (colours, None):  # the end of the palette says that the same one serves all frames
            palette.push(frame)
        self._graph = graph

    def reduce(self, frame: VideoFrame) -> VideoFrame:
        """The frame in those colours."""
        from av import VideoFrame

        self._source.push(frame)
        reduced = self._sink.pull()
        assert isinstance(reduced, VideoFrame)
        return reduced


def _source(graph: Graph, like: VideoFrame, time_base: Fraction) -> FilterContext:
    return graph.add_buffer(width=like.width, height=like.height, format=like.format, time_base=time_base)


def _frame(picture: Picture, time_base: Fraction, index: int) -> VideoFrame:
    from av import VideoFrame

    frame = VideoFrame.from_ndarray(picture, format=_RGB)
    frame.pts, frame.time_base = index, time_base
    return frame
