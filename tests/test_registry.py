"""One table of names for built-ins and plug-ins. The plug-ins are real distributions in a folder on `sys.path`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from edgert.errors import UnknownNameError, UnsupportedError
from edgert.registry import Registry

GROUP = "edgert.terms"
Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a distribution of one module and its entry points; each call uses a site folder of its own."""

    def make(name: str, entries: dict[str, str], module: str = "", code: str = "") -> None:
        site = tmp_path / name
        info = site / f"{name.replace('-', '_')}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = "".join(f"{entry} = {value}\n" for entry, value in entries.items())
        (info / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}[console_scripts]\nother = os:getcwd\n")
        if module:
            (site / f"{module}.py").write_text(code)
            monkeypatch.delitem(sys.modules, module, raising=False)
        monkeypatch.syspath_prepend(site)

    return make


def registry(**builtins: str) -> Registry:
    return Registry(GROUP, "observation term", builtins or {"join": "os.path:join", "split": "os.path:split"})


def test_a_built_in_is_found_by_name():
    import os.path

    assert registry().load("join") is os.path.join


def test_a_plug_in_stands_beside_the_built_ins(install):
    install("edgert-heights", {"heights": "plug_heights:HEIGHTS"}, "plug_heights", "HEIGHTS = object()")
    some = registry()
    assert some.names() == ("heights", "join", "split")
    assert some.load("heights") is sys.modules["plug_heights"].HEIGHTS


def test_a_name_is_loaded_once(install):
    install("edgert-once", {"once": "plug_once:MADE"}, "plug_once", "MADE = object()")
    some = registry()
    assert some.load("once") is some.load("once")


def test_nothing_is_imported_before_it_is_chosen(install):
    install("edgert-lazy", {"lazy": "plug_lazy:TERM"}, "plug_lazy", "TERM = 1")
    some = registry(builtin="edgert.not_there:nothing", join="os.path:join")
    assert some.names() == ("builtin", "join", "lazy")
    some.load("join")
    assert "plug_lazy" not in sys.modules


def test_an_entry_point_of_another_group_is_no_plug_in(install):
    install("edgert-other", {}, "plug_other")
    assert "other" not in registry().names()


def test_an_unknown_name_is_refused_with_the_valid_ones(install):
    install("edgert-heights", {"heights": "plug_heights:HEIGHTS"})
    with pytest.raises(UnknownNameError) as caught:
        registry().load("hights")
    assert str(caught.value) == "unknown observation term 'hights': expected one of heights, join, split"


def test_two_plug_ins_of_one_name_are_refused(install):
    install("edgert-first", {"heights": "plug_first:HEIGHTS"})
    install("edgert-second", {"heights": "plug_second:HEIGHTS"})
    with pytest.raises(UnsupportedError) as caught:
        registry().names()
    assert str(caught.value) in {
        f"two observation terms are called 'heights': found edgert-{one} and edgert-{other}. Uninstall one of them"
        for one, other in (("first", "second"), ("second", "first"))
    }


def test_a_plug_in_cannot_take_the_place_of_a_built_in(install):
    install("edgert-usurper", {"join": "plug_usurper:join"})
    with pytest.raises(UnsupportedError) as caught:
        registry().load("split")
    assert str(caught.value) == (
        "two observation terms are called 'join': found edgert and edgert-usurper. Uninstall one of them"
    )


@pytest.mark.parametrize(
    ("value", "code", "found"),
    [
        ("plug_broken:TERM", "1 / 0", "ZeroDivisionError: division by zero"),
        ("plug_broken:TERM", "import not_there_at_all", "ModuleNotFoundError: No module named 'not_there_at_all'"),
        ("plug_broken:TERM", "import sys\nsys.exit('bye')", "SystemExit: bye"),
        ("plug_broken:TERM", "", "AttributeError: module 'plug_broken' has no attribute 'TERM'"),
        ("plug_missing:TERM", "", "ModuleNotFoundError: No module named 'plug_missing'"),
    ],
)
def test_a_broken_plug_in_fails_when_it_is_chosen_and_names_its_distribution(install, value, code, found):
    install("edgert-broken", {"broken": value}, "plug_broken", code)
    some = registry()
    some.load("join")
    with pytest.raises(UnsupportedError) as caught:
        some.load("broken")
    assert str(caught.value) == (
        f"observation term 'broken' of edgert-broken cannot be loaded: found {found}. Update or uninstall that package"
    )


def test_an_entry_point_that_is_none_is_refused_when_it_is_chosen(install):
    install("edgert-garbled", {"garbled": "not a module !"})
    some = registry()
    assert "garbled" in some.names()
    with pytest.raises(UnsupportedError, match=r"^observation term 'garbled' of edgert-garbled cannot be loaded"):
        some.load("garbled")


def test_a_broken_built_in_keeps_its_traceback():
    with pytest.raises(ModuleNotFoundError):
        registry(bug="edgert.not_there:nothing").load("bug")


def test_a_plug_in_that_fails_once_is_tried_again(install, tmp_path):
    install("edgert-mended", {"mended": "plug_mended:TERM"}, "plug_mended", "1 / 0")
    some = registry()
    with pytest.raises(UnsupportedError):
        some.load("mended")
    (tmp_path / "edgert-mended" / "plug_mended.py").write_text("TERM = 'a term'  # longer than before\n")
    assert some.load("mended") == "a term"


def test_a_contract_reads_a_term_of_a_plug_in(install, tmp_path):
    code = """
from edgert.contract.terms import Term
TERM = Term(function=lambda inputs, term, xp: inputs.last_action, dim=lambda sizes, sensors: sizes.nact)
"""
    install("edgert-term", {"own_term": "plug_term:TERM"}, "plug_term", code)
    document = {
        "schema": 1,
        "control_hz": 50,
        "joints": {"names": ["hip", "knee"], "default_pos": 0, "kp": 1, "kd": 0},
        "inputs": {"obs": {"terms": ["own_term"]}},
        "action": {"output": "actions"},
    }
    read = f"from edgert.contract import parse_contract; print(parse_contract({document}, 'test').inputs['obs'].dim)"
    command = [sys.executable, "-c", f"import sys; sys.path.append({str(tmp_path / 'edgert-term')!r}); {read}"]
    assert subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout == "2\n"
