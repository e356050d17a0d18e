"""Figures of chips: strictly read, each with its source, never compared with what is of another kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgert.device.chips import Chip, Figure, bundled_chips, identify, read_chips
from edgert.errors import ContractError, UnsupportedError

ENTRY = """
schema = 1
[chips.one]
title = "One"
vendor = "Acme"
match = ["Acme One*"]
figures = [{ what = "compute", value = 100, unit = "TOPS", precision = "int8", sparsity = "dense", claim = "vendor", source = "its page" }]
"""  # noqa: E501  # as it stands in the file


def read(tmp_path: Path, text: str) -> dict[str, Chip]:
    path = tmp_path / "chips.toml"
    path.write_text(text)
    return read_chips(path)


def compute(**changes: object) -> Figure:
    facts = {
        "what": "compute", "value": 200.0, "unit": "TOPS", "low": None, "precision": "int8", "sparsity": "dense",
        "claim": "vendor", "source": "its page",
    }  # fmt: skip
    return Figure(**(facts | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("chip", bundled_chips().values(), ids=lambda chip: chip.name)
def test_every_bundled_figure_has_a_source_and_says_what_it_is(chip):
    assert chip.title
    assert chip.match
    for figure in chip.figures:
        assert figure.source
        assert figure.claim in ("vendor", "seen")
        assert bool(figure.precision) == bool(figure.sparsity) == (figure.what == "compute")
        assert ("the vendor's claim: " in figure.text()) == (figure.claim == "vendor")
        assert figure.low is None or figure.low < figure.value


def test_every_chip_of_the_table_is_found_by_a_name():
    names = {
        "NVIDIA Jetson AGX Thor Developer Kit": "jetson-t5000", "NVIDIA Thor": "jetson-t5000",
        "NVIDIA Jetson T4000": "jetson-t4000", "NVIDIA Jetson AGX Orin Developer Kit": "jetson-agx-orin",
        "NVIDIA GB10": "gb10", "NVIDIA H200": "h200", "MTT S5000": "mtt-s5000", "Ascend 910B2": "ascend-910b2",
        "Ascend 310P3": "ascend-310p3", "PPU-ZW810E": "ppu-zw810e", "Hygon K100_AI": "k100-ai",
        "Iluvatar MR-V100": "mr-v100", "Iluvatar BI-V100": "tiangai-100", "Iluvatar BI-V150": "tiangai-150",
        "MRC-V100-0x18": "mrc-v100",
    }  # fmt: skip
    chips = bundled_chips().values()
    assert {name: getattr(identify(chips, name, "a CPU"), "name", None) for name in names} == names
    assert getattr(identify(chips, "MRC-V100-0x18", "Intel(R) Core(TM) Ultra 7 255H"), "name", None) == "ty1200"
    assert sorted({*names.values(), "ty1200"}) == sorted(bundled_chips())
    for stranger in ("NVIDIA GeForce RTX 3090", "Ascend 910B3", "Radeon RX 7900 XT", ""):
        assert identify(chips, stranger, "") is None


def test_a_figure_for_people_says_all_that_must_be_said():
    assert compute().text() == "200 TOPS INT8, dense (the vendor's claim: its page)"
    unstated = compute(precision="unstated", sparsity="unstated", claim="seen")
    assert unstated.text() == "200 TOPS of unstated precision, dense or sparse, unstated (seen: its page)"
    power = compute(what="power", unit="W", low=40.0, value=130.0, precision="", sparsity="")
    assert power.text() == "40–130 W (the vendor's claim: its page)"


def test_a_measurement_is_related_to_a_figure_of_its_kind():
    assert compute().share(50.0, unit="TOPS", precision="int8", sparsity="dense") == 0.25


@pytest.mark.parametrize(
    "changes",
    [
        {"sparsity": "sparse"},
        {"precision": "fp16"},
        {"unit": "TFLOPS"},
        {"sparsity": "unstated"},
        {"precision": "unstated"},
    ],
)
def test_a_figure_of_another_kind_is_refused(changes):
    with pytest.raises(
        UnsupportedError, match="cannot be set in relation to a figure of another kind: found TOPS int8"
    ):
        compute(**changes).share(50.0, unit="TOPS", precision="int8", sparsity="dense")


def test_what_states_nothing_is_compared_with_nothing():
    with pytest.raises(UnsupportedError):
        compute(precision="unstated").share(1.0, unit="TOPS", precision="unstated", sparsity="dense")
    with pytest.raises(UnsupportedError):
        compute(what="memory", unit="GB", precision="", sparsity="").share(1.0, unit="GB", precision="", sparsity="")


def test_a_table_is_read(tmp_path):
    chip = read(tmp_path, ENTRY)["one"]
    assert (chip.title, chip.vendor, chip.host, chip.arch, chip.notes) == ("One", "Acme", (), (), "")
    assert chip.figures[0].share(50.0, unit="TOPS", precision="int8", sparsity="dense") == 0.5


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("schema = 1", "schema = 2", "key 'schema' is wrong: found 2"),
        ("schema = 1", "schema = 1\nodd = 1", "unknown key 'odd'"),
        ('title = "One"', "", "key 'chips.one.title' is missing"),
        ('title = "One"', 'titel = "One"', "key 'chips.one.title' is missing: found 'titel', which is no key"),
        ('precision = "int8", ', "", "key 'chips.one.figures[0].precision' is missing"),
        ('"int8"', '"int3"', "key 'chips.one.figures[0].precision' is wrong: found 'int3'"),
        ('sparsity = "dense", ', "", "key 'chips.one.figures[0].sparsity' is missing"),
        ('"TOPS"', '"GB"', "key 'chips.one.figures[0].unit' is wrong: found 'GB', expected one of TFLOPS, TOPS"),
        ("value = 100", "value = 0", "key 'chips.one.figures[0].value' is wrong"),
        ("value = 100", "value = true", "key 'chips.one.figures[0].value' is wrong"),
        ('claim = "vendor"', 'claim = "me"', "key 'chips.one.figures[0].claim' is wrong"),
        (', source = "its page"', "", "key 'chips.one.figures[0].source' is missing"),
        ('what = "compute"', 'what = "speed"', "key 'chips.one.figures[0].what' is wrong"),
        ('what = "compute"', 'what = "memory"', "key 'chips.one.figures[0].unit' is wrong"),
        ("figures = [", "figures = [1, ", "key 'chips.one.figures' is wrong"),
        ("figures = [", "x = [", "unknown key 'chips.one.x'"),
    ],
)
def test_what_is_wrong_in_a_table_is_refused_by_its_key(tmp_path, old, new, why):
    assert old in ENTRY
    with pytest.raises(ContractError) as caught:
        read(tmp_path, ENTRY.replace(old, new))
    assert why in str(caught.value)


def test_a_dense_figure_alone_has_a_precision(tmp_path):
    text = ENTRY.replace('what = "compute"', 'what = "power"').replace('"TOPS"', '"W"')
    with pytest.raises(ContractError, match=r"unknown key 'chips.one.figures\[0\].precision'"):
        read(tmp_path, text)
