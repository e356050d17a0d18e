"""Reading the table [action] of a contract."""

from __future__ import annotations

from collections import Counter
from typing import cast, get_args

from edgert.contract.per_number import bounds, choices, per_joint
from edgert.contract.spec import POSITIONS, ActionKind, ActionSpec
from edgert.tables import Table, show, type_name


def read_action(table: Table, joints: tuple[str, ...], default_pos: tuple[float, ...]) -> ActionSpec:
    """The action of a contract over `joints`."""
    names = _joints(table, joints)
    kinds = cast(tuple[ActionKind, ...], choices(table, "kind", names, get_args(ActionKind), "position"))
    _check_kinds(table, names, kinds)
    if table.raw("offset", "default") == "default":
        pose = dict(zip(joints, default_pos, strict=True))
        offset = tuple(pose[name] if kind == "position" else 0.0 for name, kind in zip(names, kinds, strict=True))
    else:
        offset = per_joint(table, "offset", names)
    spec = ActionSpec(
        outputs=_outputs(table, "output"),
        added=_outputs(table, "added") if table.has("added") else (),
        joints=names,
        kinds=kinds,
        scale=per_joint(table, "scale", names, 1.0),
        offset=offset,
        clip=bounds(table, "clip", names),
        target_clip=bounds(table, "target_clip", names),
    )
    table.close()
    return spec


def _joints(table: Table, joints: tuple[str, ...]) -> tuple[str, ...]:
    value = table.raw("joints", None)
    if value is None:
        return joints
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        table.fail("joints", found=f"{type_name(value)} {show(value)}", expected="a list of names")
    unknown = [name for name in value if name not in joints]
    if unknown or not value:
        table.fail(
            "joints",
            found=", ".join(unknown) or "no joint",
            expected="some of joints.names: " + ", ".join(joints),
            hint="None of them is there: is one of the two of another robot?" if unknown == value != [] else "",
        )
    return tuple(value)


def _check_kinds(table: Table, names: tuple[str, ...], kinds: tuple[ActionKind, ...]) -> None:
    """Refuse a joint that gets two targets of one kind."""
    drives = Counter((name, "position" if kind in POSITIONS else kind) for name, kind in zip(names, kinds, strict=True))
    twice = sorted({name for (name, _), count in drives.items() if count > 1})
    if twice:
        table.fail("joints", found=f"{', '.join(twice)} more than once", expected="each name once")


def _outputs(table: Table, name: str) -> tuple[str, ...]:
    value = table.raw(name)
    return table.names(name) if isinstance(value, list) and value else (table.text(name),)
