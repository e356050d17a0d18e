"""Registering the environments with Gymnasium, without importing it.

If Gymnasium is loaded, the environments are registered at once; otherwise when it gets imported, by an import hook
that runs once and removes itself. Importing Gymnasium here would cost every user of edgert 0.16 s.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from edgert import assets

ENTRY_POINT = "edgert.task.env:TaskEnv"
VECTOR_ENTRY_POINT = "edgert.task.env:TaskVecEnv"


def register_when_imported() -> None:
    """Register the environment of every bundled sim, now or when Gymnasium is imported."""
    if "gymnasium" in sys.modules and hasattr(sys.modules["gymnasium"], "register"):
        register()
    elif not any(isinstance(finder, _Hook) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Hook())


def register() -> None:
    """Register the environments of the bundled sims that have an id with Gymnasium, where they are not yet."""
    import gymnasium

    for name in assets.names("sims"):
        with (assets.find("sims", name) / "task.toml").open("rb") as file:
            task = tomllib.load(file)
        if task.get("id", "") in ("", *gymnasium.registry):
            continue
        gymnasium.register(
            id=task["id"],
            entry_point=ENTRY_POINT,
            vector_entry_point=VECTOR_ENTRY_POINT,
            kwargs={"sim": name},
        )


class _Hook(MetaPathFinder):
    """Finds `gymnasium` as Python would, and has its import followed by `register`.

    Asking only whether Gymnasium is there (`importlib.util.find_spec`) changes nothing: the hook stays until an import.
    """

    def __init__(self) -> None:
        self._looking = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "gymnasium" or self._looking:
            return None
        self._looking = True
        try:
            spec = find_spec(fullname)
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None:
            spec.loader = _ThenRegister(spec.loader, self)
        return spec


class _ThenRegister(Loader):
    """A loader that registers the environments once its module is loaded."""

    def __init__(self, loader: Loader, hook: _Hook) -> None:
        self._loader = loader
        self._hook = hook

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        if self._hook in sys.meta_path:
            sys.meta_path.remove(self._hook)
        register()
