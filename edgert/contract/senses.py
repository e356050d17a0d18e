"""What a body sees of its surroundings: the heights of the ground around it, and pictures of its cameras.

These describe a view and nothing else; whoever fills a `RobotState` provides `state.senses`, by the view that a term of
the contract asks for. `sense_terms` holds those terms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from math import prod
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from edgert.tables import Table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from edgert.contract.spec import Contract

Ordering = Literal["xy", "yx"]
Image = Literal["rgb", "gray", "depth"]
MAX_POINTS: Final = 10_000
"""Most points of a scan; Isaac Lab's usual one has 187."""
MAX_PIXELS: Final = 4_096
"""Most rows or columns of a picture."""
MAX_NUMBERS: Final = 1_000_000
"""Most numbers of a picture."""
_MAX_METRES: Final = 1_000.0
_END: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class HeightScan:
    """How far below a body the ground is, on a grid of rays straight down; the conventions are those of Isaac Lab.

    A number is the height of the body above the ground there, less `height_offset`. The grid lies flat, centred on the
    body and turned with its yaw: x forward, y to the left.
    """

    size: tuple[float, float] = (1.6, 1.0)
    """Length along x and width along y, m."""
    resolution: float = 0.1
    """From one point to the next, m."""
    ordering: Ordering = "xy"
    """Which coordinate runs fastest, from its lowest value on: "xy" is x, row by row of y; "yx" is y."""
    height_offset: float = 0.5
    """m."""
    above: float = 20.0
    """How far above the body the rays start, m: what is higher is not seen."""
    miss: float = -100.0
    """What a ray gives that meets no ground, m, in place of the infinity of the trainer; `clip` bounds it."""
    body: str = ""
    """The body around which it lies; "": the base."""

    @property
    def counts(self) -> tuple[int, int]:
        """Points along x and along y."""
        nx, ny = (max(1, math.ceil((length + _END) / self.resolution)) for length in self.size)
        return nx, ny

    @property
    def shape(self) -> tuple[int, int, int]:
        """As a picture of one channel: (1, rows, columns), the columns being what runs fastest."""
        nx, ny = self.counts
        return (1, ny, nx) if self.ordering == "xy" else (1, nx, ny)

    @property
    def dim(self) -> int:
        """Points."""
        return prod(self.counts)

    def words(self) -> str:
        """What it is, for people."""
        return (
            f"height_scan around {self.body or 'the base'} of {self.size[0]:g} × {self.size[1]:g} m, "
            f"{self.resolution:g} m apart, less {self.height_offset:g} m"
        )

    def points(self) -> npt.NDArray[np.float64]:
        """(dim, 2) x and y of each point from the body, m, in the body's heading."""
        import numpy as np  # here, as a contract is read without it

        (nx, ny), (length, width) = self.counts, self.size
        x, y = np.arange(nx) * self.resolution - length / 2, np.arange(ny) * self.resolution - width / 2
        grids = np.meshgrid(x, y, indexing="xy" if self.ordering == "xy" else "ij")
        return np.stack([grid.ravel() for grid in grids], axis=1)

    def document(self) -> dict[str, Any]:
        """Its keys in a term's table."""
        return _document(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """What a camera of the scene sees: channels, then rows from the top, then columns from the left."""

    camera: str
    image: Image
    """"rgb": red, green, blue from 0 to 255; "gray": 0.299 R + 0.587 G + 0.114 B; "depth": distance from the camera
    along its axis, m."""
    height: int
    width: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """(channels, rows, columns)."""
        return 3 if self.image == "rgb" else 1, self.height, self.width

    @property
    def dim(self) -> int:
        """Numbers of a picture."""
        return prod(self.shape)

    def document(self) -> dict[str, Any]:
        """Its keys in a term's table."""
        return _document(self)


Sense = HeightScan | Picture


def senses_of(contract: Contract) -> tuple[Sense, ...]:
    """The views that the terms of a contract ask for, each once."""
    terms = [term.sense for spec in contract.inputs.values() for term in spec.terms]
    return tuple(dict.fromkeys(sense for sense in terms if sense is not None))


def read_scan(table: Table) -> HeightScan:
    """The keys of a `height_scan`."""
    default = HeightScan()
    size = table.numbers("size", default.size, length=2)
    if not all(0.0 <= length <= _MAX_METRES for length in size):
        table.fail("size", found=list(size), expected=f"[length, width] in m, 0 to {_MAX_METRES:g}")
    scan = HeightScan(
        size=(size[0], size[1]),
        resolution=table.number("resolution", default.resolution, lo=1e-3, hi=_MAX_METRES),
        ordering=cast(Ordering, table.text("ordering", default.ordering, choices=get_args(Ordering))),
        height_offset=table.number("height_offset", default.height_offset),
        above=table.number("above", default.above, lo=0.0, hi=_MAX_METRES),
        miss=table.number("miss", default.miss),
        body=table.text("body", default.body),
    )
    if scan.dim > MAX_POINTS:
        nx, ny = scan.counts
        table.fail("resolution", found=f"{nx} × {ny} points", expected=f"at most {MAX_POINTS} points")
    return scan


def read_picture(table: Table) -> Picture:
    """The keys of a `camera`."""
    camera = table.text("camera")
    if not camera:
        table.fail("camera", found="no name", expected="the name of a camera of the scene")
    picture = Picture(
        camera=camera,
        image=cast(Image, table.text("image", choices=get_args(Image))),
        height=table.integer("height", lo=1, hi=MAX_PIXELS),
        width=table.integer("width", lo=1, hi=MAX_PIXELS),
    )
    if picture.dim > MAX_NUMBERS:
        table.fail("height", found=f"a picture of {picture.dim} numbers", expected=f"at most {MAX_NUMBERS}")
    return picture


def _document(sense: Any) -> dict[str, Any]:
    values = {each.name: getattr(sense, each.name) for each in fields(sense)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
