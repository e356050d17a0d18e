"""`Closes`: whatever has `close` is a context manager."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closes:
    """Closed at the end of a `with` block, whatever ends it."""

    def close(self) -> None:
        """Release what is held; closing twice does no harm."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
