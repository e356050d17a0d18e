"""`read`: a recording back as episodes of NumPy arrays.

Columns are mapped from the files and gathered an episode at a time, so a recording may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, overload

import numpy as np

from edgert.errors import IntegrityError, UnknownNameError
from edgert.rollout.folder import SUFFIX, import_arrow
from edgert.rollout.stream import Array, Stream

MAX_STREAMS: Final = 100_000


def read(path: str | Path) -> Recording:
    """The recording in the folder `path`.

    Raises:
        IntegrityError: it is no recording, or a file in it is damaged beyond a torn tail.
        UnsupportedError: pyarrow is not installed.
    """
    folder = Path(path)
    import_arrow()
    try:
        files = sorted(entry for entry in folder.iterdir() if entry.name.endswith(SUFFIX))
    except (OSError, ValueError) as error:
        raise IntegrityError(
            f"cannot read recording {folder}",
            found=getattr(error, "strerror", None) or error,
            expected="a folder that --record wrote",
        ) from error
    if not files or len(files) > MAX_STREAMS:
        raise IntegrityError(
            f"folder {folder} holds no recording",
            found=f"{len(files)} files *{SUFFIX}",
            expected=f"1 to {MAX_STREAMS}",
            hint="Record one: edgert run policy --record DIR",
        )
    return Recording(path=folder, streams=tuple(Stream(file) for file in files))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Episode:
    """One episode. Arrays are made when they are asked for.

    Attributes:
        index: its place in the recording.
        header: what the whole run shares: digests, device, rate, contract …
        info: what is known of the episode: `seed`, `world`, `outcome`, `return`, `steps` …
    """

    index: int
    header: Mapping[str, Any]
    info: Mapping[str, Any]
    columns: tuple[str, ...]
    _stream: Stream = field(repr=False)
    _rows: Array = field(repr=False)

    @property
    def id(self) -> str:
        """What names it everywhere: the epoch of its stream and its number there."""
        return f"{self.header['epoch']}/{self.info['episode']}"

    @property
    def steps(self) -> int:
        """Control steps, T."""
        return int(np.count_nonzero(self._stream.gather("action", self._rows)[1]))

    @property
    def rows_of_run(self) -> int:
        """Rows of all episodes of its run."""
        return len(self._stream)

    def __getitem__(self, name: str) -> Array:
        """A column's rows, those without a value left out: T of what was done, T + 1 of what was seen.

        Raises:
            UnknownNameError: the recording has no such column.
        """
        if name not in self.columns:
            raise UnknownNameError(f"no column '{name}' in the recording", expected="one of " + ", ".join(self.columns))
        values, valid = self._stream.gather(name, self._rows)
        return values if valid.all() else values[valid]

    def _prefixed(self, prefix: str) -> dict[str, Array]:
        return {name.removeprefix(prefix): self[name] for name in self.columns if name.startswith(prefix)}

    @property
    def observation(self) -> dict[str, Array]:
        """ONNX input name to (T + 1, dim)."""
        return self._prefixed("observation.")

    @property
    def outputs(self) -> dict[str, Array]:
        """Other network outputs, by ONNX name, (T, …)."""
        return self._prefixed("output.")

    @property
    def action(self) -> Array:
        """Raw network output, (T, nact)."""
        return self["action"]

    @property
    def target(self) -> Array:
        """What was sent to the joints, or to the environment, (T, njoint)."""
        return self["target"]

    @property
    def qpos(self) -> Array:
        """State, (T + 1, nq)."""
        return self["state.qpos"]

    @property
    def qvel(self) -> Array:
        """State, (T + 1, nv)."""
        return self["state.qvel"]

    @property
    def seconds(self) -> float:
        """Robot time, s."""
        return float(self.steps / self.header["control_hz"])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recording(Sequence[Episode]):
    """Episodes in the order in which they were recorded. `torn` says which files lost a tail."""

    path: Path
    streams: tuple[Stream, ...] = field(repr=False)

    @property
    def torn(self) -> tuple[str, ...]:
        """One line for each file whose end is missing."""
        return tuple(stream.torn for stream in self.streams if stream.torn)

    def __len__(self) -> int:
        return sum(len(stream.episodes) for stream in self.streams)

    @overload
    def __getitem__(self, index: int) -> Episode: ...

    @overload
    def __getitem__(self, index: slice) -> list[Episode]: ...

    def __getitem__(self, index: int | slice) -> Episode | list[Episode]:
        if isinstance(index, slice):
            return list(self)[index]
        total = len(self)
        if not -total <= index < total:
            raise IndexError(f"recording {self.path} has {total} episodes, no number {index}")
        left = index = index % total
        for stream in self.streams:
            if left < len(stream.episodes):
                return _episode(stream, left, index)
            left -= len(stream.episodes)
        raise AssertionError("unreachable")

    def __iter__(self) -> Iterator[Episode]:
        places = ((stream, place) for stream in self.streams for place in range(len(stream.episodes)))
        return (_episode(*place, index) for index, place in enumerate(places))


def _episode(stream: Stream, place: int, index: int) -> Episode:
    """The episode at a place in a stream, which is number `index` of the recording."""
    number = int(stream.episodes[place])
    ended = stream.ended.get(str(number), {"reason": "the recording ends here"})
    return Episode(
        index=index,
        header=stream.header,
        info={**stream.begun.get(str(number), {}), "outcome": "interrupted", **ended, "episode": number},
        columns=stream.columns,
        _stream=stream,
        _rows=stream.rows(place),
    )
