"""Inputs that are images: whether the shape that a model declares is that of what a contract shows it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path

from edgert.errors import ContractError

Shape = tuple[int | str | None, ...]
Image = tuple[int, int, int]
"""Channels, rows, columns."""


def flat_shape(shape: Shape, image: Image | None) -> Shape | None:
    """An input's shape as [batch, size] or [size], whatever axes an image has in between; None if it takes another.

    An image may stand as [batch, channels, rows, columns], without the batch, or, of one channel, as
    [batch, rows, columns]. Axes that a model leaves open take what comes.
    """
    if len(shape) < 3:
        return shape
    if image is None:
        return None
    if len(shape) == 4 and _fits(shape[1:], image):
        return (shape[0], prod(image))
    if len(shape) == 3 and image[0] == 1 and _fits(shape[1:], image[1:]):
        return (shape[0], prod(image))
    return (prod(image),) if shape == image else None


def row_size(shape: Shape) -> int | None:
    """Numbers of one world that an input of a flat shape takes; None where the model leaves it open."""
    if len(shape) == 0 or (len(shape) == 1 and not isinstance(shape[0], int)):
        return 1
    return shape[-1] if isinstance(shape[-1], int) else None


def run_shape(shape: Shape, image: Image, rows: int) -> tuple[int, ...]:
    """What a run of so many rows has to have for an input of that shape, of three or four axes."""
    if len(shape) == 4:
        return (rows, *image)
    return image if shape == image and image[0] != 1 else (rows, *image[1:])


def wrong_rank(name: str, shape: Shape, image: Image | None, path: Path) -> ContractError:
    """The refusal of an input of more than two axes that takes no image, or another one."""
    if image is None:
        what = ", an image or a sequence" if len(shape) in (3, 4) else ""
        return ContractError(
            f"input '{name}' of policy {path} has the wrong rank",
            found=f"{list(shape)}{what}",
            expected="[batch, size]",
        )
    return ContractError(
        f"input '{name}' of policy {path} takes no image such as the contract describes",
        found=_text(shape),
        expected=f"[batch, {', '.join(map(str, image))}]: channels, rows, columns",
        hint="Correct height, width, image or history of its term in policy.toml",
    )


def _fits(axes: Shape, sizes: Sequence[int]) -> bool:
    return all(not isinstance(axis, int) or axis == size for axis, size in zip(axes, sizes, strict=True))


def _text(shape: Shape) -> str:
    return f"[{', '.join('?' if axis is None else str(axis) for axis in shape)}]"
