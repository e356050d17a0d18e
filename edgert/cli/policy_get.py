"""`edgert policy get`: fetch a policy of the catalogue, or of any address with a digest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any

import click
from click.shell_completion import CompletionItem

from edgert import assets
from edgert.cli.live import LiveLine
from edgert.cli.main import HELP_NAMES, say, write
from edgert.cli.running import json_option
from edgert.errors import EdgertError, UnknownNameError


def complete_known(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The catalogue's names that begin so."""
    from edgert.catalog import catalog

    try:
        return [CompletionItem(name) for name in catalog() if name.startswith(incomplete)]
    except EdgertError:
        return []


@click.command(context_settings=HELP_NAMES)
@click.argument("policy", metavar="NAME|URL#sha256=HEX", shell_complete=complete_known)
@json_option
def get(policy: str, as_json: bool) -> None:
    """Download a known policy by its name, or an .onnx file by its address and digest, and say how to run it.

    It is kept in the state folder, under its digest; what is there already is not fetched again, and what broke off
    goes on from there. `edgert policy list` shows the names.
    """
    from edgert.catalog import MODEL, catalog, from_address
    from edgert.catalog import get as fetch

    if "://" in policy:
        wanted, known = from_address(policy), False
    else:
        everyone = catalog()
        if policy not in everyone:
            bundled = policy in assets.names("models")
            raise UnknownNameError(
                f"no policy '{policy}' in the catalogue",
                expected=", ".join([*everyone, "or URL#sha256=HEX"]),
                hint=f"It is bundled. Run: edgert run policy {policy}" if bundled else "",
            )
        wanted, known = everyone[policy], True
    with LiveLine() as line:
        fetched = fetch(wanted, progress=lambda *done: line.update(lambda: _progress(*done)), say=say)
    folder = wanted.folder()
    report = {
        "name": wanted.name if known else None,
        "path": str(folder / MODEL),
        "downloaded": fetched,
        "files": [
            {
                "name": file.name,
                "size_bytes": (folder / file.name).stat().st_size,
                "sha256": file.sha256,
                "url": file.url,
            }
            for file in wanted.files
        ],
        "run": f"edgert run policy {wanted.name if known else quote(str(folder / MODEL))} --sim ROBOT.xml",
        **{key: getattr(wanted, key) or None for key in ("title", "robot", "licence", "source", "expect")},
    }
    write(report, as_json, _table)


def rows(read: Callable[[str, Path], dict[str, Any]]) -> list[dict[str, Any]]:
    """The catalogue's rows of `edgert policy list`; `read` makes that of a name and a model that is here."""
    from edgert.catalog import MODEL, catalog

    listed = []
    for name, policy in catalog().items():
        row: dict[str, Any] = dict.fromkeys(("control_hz", "inputs", "actions", "policy_sha256", "path", "error"))
        sizes = [file.size_bytes for file in policy.files]
        row |= {"name": name, "size_bytes": None if None in sizes else sum(map(int, filter(None, sizes)))}
        if policy.is_fetched():
            row |= read(name, policy.folder() / MODEL)
            if row["policy_sha256"] is not None:  # it can be used, if perhaps not without the scene of its robot
                row["error"] = None
        row |= {"state": "downloaded" if policy.is_fetched() else "available", "robot": policy.robot}
        listed.append(row | {"licence": policy.licence, "source": policy.source})
    return listed


def _progress(name: str, done: int, total: int | None) -> str:
    from edgert.device.host import size_text

    return f"{name}: {size_text(done)}" + ("" if total is None else f" of {size_text(total)}")


def _table(report: dict[str, Any]) -> str:
    from edgert.cli.tables import facts, rendered
    from edgert.device.host import size_text

    shown = [(key, report[key]) for key in ("title", "robot", "licence", "source") if report[key] is not None]
    shown += [
        ("file", f"{one['name']}, {size_text(one['size_bytes'])}, sha256 {one['sha256']}") for one in report["files"]
    ]
    shown.append(("path", report["path"] + ("" if report["downloaded"] else "  (was there already)")))
    shown.append(("run", f"{report['run']}, with the scene of its robot"))
    if report["expect"] is not None:
        shown.append(("expect", report["expect"]))
    return rendered(facts(shown))
