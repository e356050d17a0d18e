"""One table of names for everything that can be plugged in.

Built-ins and plug-ins stand in the same table: a plug-in is an entry point of one of the groups `edgert.devices`,
`edgert.sims`, `edgert.robots`, `edgert.terms`, `edgert.formats`, `edgert.pools` or `edgert.commands`. Nothing is
imported until it is chosen; a broken plug-in fails only then, naming its distribution; two of one name are refused.
"""

from __future__ import annotations

import importlib
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from edgert.errors import UnknownNameError, UnsupportedError


class Registry:
    """Names of one group, each standing for `module:attribute`.

    Args:
        group: the entry-point group, such as "edgert.terms".
        kind: what one entry is called in errors, such as "observation term".
        builtins: name to "module:attribute".
    """

    def __init__(self, group: str, kind: str, builtins: dict[str, str]) -> None:
        self.group = group
        self.kind = kind
        self._builtins = builtins
        self._entries: dict[str, EntryPoint] | None = None
        self._loaded: dict[str, Any] = {}

    def entries(self) -> dict[str, EntryPoint]:
        """Every entry by name, built-ins first. Raises `UnsupportedError` when two share a name."""
        if self._entries is None:
            entries = {name: EntryPoint(name, value, self.group) for name, value in self._builtins.items()}
            for entry in entry_points(group=self.group):
                if entry.name in entries and entries[entry.name].value != entry.value:
                    raise UnsupportedError(
                        f"two {self.kind}s are called '{entry.name}'",
                        found=f"{_origin(entries[entry.name])} and {_origin(entry)}",
                        hint="Uninstall one of them",
                    )
                entries[entry.name] = entry
            self._entries = entries
        return self._entries

    def names(self) -> tuple[str, ...]:
        """Every name, sorted."""
        return tuple(sorted(self.entries()))

    def load(self, name: str) -> Any:
        """The object behind a name.

        Raises:
            UnknownNameError: nothing has that name; the error lists those that exist.
            UnsupportedError: the entry cannot be imported.
        """
        if name in self._loaded:
            return self._loaded[name]
        entry = self.entries().get(name)
        if entry is None:
            raise UnknownNameError(f"unknown {self.kind} '{name}'", expected="one of " + ", ".join(self.names()))
        if name in self._builtins:
            module, _, attribute = entry.value.partition(":")
            loaded = getattr(importlib.import_module(module), attribute)
        else:
            try:
                loaded = entry.load()
            except (Exception, SystemExit) as error:  # a plug-in may raise anything while it is imported
                raise UnsupportedError(
                    f"{self.kind} '{name}' of {_origin(entry)} cannot be loaded",
                    found=f"{type(error).__name__}: {error}",
                    hint="Update or uninstall that package",
                ) from error
        self._loaded[name] = loaded
        return loaded


def _origin(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "edgert"
