"""Views of the surroundings as terms: their keys, their grids, and the images that inputs of one of them are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contract_examples import contract, document, numbers, observed, term_inputs

from edgert.contract import parse_contract
from edgert.contract.observe import check_state
from edgert.contract.senses import HeightScan, Picture, senses_of
from edgert.errors import ContractError

FRONT = {"name": "camera", "camera": "front", "image": "rgb", "height": 2, "width": 3}


def refusal(term: dict[str, Any]) -> str:
    with pytest.raises(ContractError) as caught:
        parse_contract(document(term), "policy.toml")
    return str(caught.value)


def test_the_usual_scan_of_isaac_lab_has_187_points() -> None:
    scan = contract("height_scan").inputs["obs"].terms[0].sense
    assert scan == HeightScan()
    assert (scan.counts, scan.dim, scan.shape) == ((17, 11), 187, (1, 11, 17))
    points = scan.points()
    np.testing.assert_allclose(
        points[[0, 1, 16, 17, 186]], [[-0.8, -0.5], [-0.7, -0.5], [0.8, -0.5], [-0.8, -0.4], [0.8, 0.5]]
    )


def test_yx_runs_along_y_first() -> None:
    scan = HeightScan(ordering="yx")
    assert scan.shape == (1, 17, 11)
    np.testing.assert_allclose(scan.points()[[0, 1, 10, 11]], [[-0.8, -0.5], [-0.8, -0.4], [-0.8, 0.5], [-0.7, -0.5]])


@pytest.mark.parametrize(
    ("size", "resolution", "counts"),
    [((1.6, 1.0), 0.1, (17, 11)), ((1.0, 0.3), 0.1, (11, 4)), ((0.0, 0.0), 0.1, (1, 1)), ((1.05, 0.7), 0.1, (11, 8))],
)
def test_the_points_of_a_side_are_those_of_a_range_with_its_end(
    size: tuple[float, float], resolution: float, counts: tuple[int, int]
) -> None:
    scan = HeightScan(size=size, resolution=resolution)
    assert scan.counts == counts
    assert counts == tuple(len(np.arange(-side / 2, side / 2 + 1e-9, resolution)) for side in size)
    assert scan.points().shape == (scan.dim, 2)


@pytest.mark.parametrize(
    ("terms", "image"),
    [
        ([FRONT], (3, 2, 3)),
        ([FRONT | {"history": 4}], (12, 2, 3)),
        ([FRONT | {"image": "depth"}], (1, 2, 3)),
        (["height_scan"], (1, 11, 17)),
        ([{"name": "height_scan", "index": [0, 1]}], None),
        ([FRONT, "joint_pos"], None),
        (["joint_pos"], None),
    ],
)
def test_an_input_is_an_image_where_one_view_fills_it(terms: list[Any], image: tuple[int, int, int] | None) -> None:
    assert contract(*terms).inputs["obs"].image == image


def test_a_picture_is_scaled_channel_by_channel() -> None:
    term = FRONT | {"scale": [1.0, 2.0, 3.0], "offset": [0.0, 0.0, -1.0]}
    spec, values = contract(term), numbers(nworld=2)
    picture = values["senses"][Picture(camera="front", image="rgb", height=2, width=3)].reshape(2, 3, 6)
    expected = picture * [[1.0], [2.0], [3.0]] + [[0.0], [0.0], [-1.0]]
    np.testing.assert_allclose(observed(spec, term_inputs(spec, values)).reshape(2, 3, 6), expected)
    written = spec.to_document()["inputs"]["obs"]["terms"][0]
    assert (written["scale"], written["offset"]) == ([1.0, 2.0, 3.0], [0.0, 0.0, -1.0])


def test_every_view_is_made_once() -> None:
    spec = contract("height_scan", FRONT, FRONT | {"scale": 0.5}, {"name": "height_scan", "clip": [-1.0, 1.0]})
    assert senses_of(spec) == (HeightScan(), Picture(camera="front", image="rgb", height=2, width=3))


def test_a_body_that_sees_nothing_is_refused() -> None:
    spec, values = contract("height_scan"), numbers()
    values["senses"] = {}
    with pytest.raises(ContractError) as caught:
        check_state(spec, term_inputs(spec, values).state, "the robot")
    assert str(caught.value) == (
        "term 'height_scan' of input 'obs' needs a view of the surroundings that the robot does not have"
    )


KEY = "policy.toml: key 'inputs.obs.terms[0]"


@pytest.mark.parametrize(
    ("term", "text"),
    [
        ({"name": "height_scan", "size": [1.0]}, KEY + ".size' is wrong: found 1 numbers, expected 2"),
        (
            {"name": "height_scan", "size": [1.0, -1.0]},
            KEY + ".size' is wrong: found [1.0, -1.0], expected [length, width] in m, 0 to 1000",
        ),
        (
            {"name": "height_scan", "resolution": 0.01},
            KEY + ".resolution' is wrong: found 161 × 101 points, expected at most 10000 points",
        ),
        (
            {"name": "height_scan", "resolution": 0},
            KEY + ".resolution' is wrong: found 0, expected at least 0.001 and at most 1000",
        ),
        ({"name": "height_scan", "ordering": "zx"}, KEY + ".ordering' is wrong: found 'zx', expected one of xy, yx"),
        ({"name": "height_scan", "dim": 12}, KEY + ".dim' is wrong: found 12, expected 187 for 'height_scan'"),
        ({"name": "camera"}, KEY + ".camera' is missing. Add inputs.obs.terms[0].camera to it"),
        (FRONT | {"camera": ""}, KEY + ".camera' is wrong: found no name, expected the name of a camera of the scene"),
        (FRONT | {"image": "bgr"}, KEY + ".image' is wrong: found 'bgr', expected one of rgb, gray, depth"),
        (FRONT | {"width": 0}, KEY + ".width' is wrong: found 0, expected at least 1 and at most 4096"),
        (FRONT | {"height": 5000}, KEY + ".height' is wrong: found 5000, expected at least 1 and at most 4096"),
        (
            FRONT | {"height": 4000, "width": 4000},
            KEY + ".height' is wrong: found a picture of 48000000 numbers, expected at most 1000000",
        ),
        (
            FRONT | {"scale": [1.0, 2.0]},
            KEY + ".scale' is wrong: found a list [1.0, 2.0], expected a number or a list of 3 numbers",
        ),
        (
            FRONT | {"index": [0]},
            "policy.toml: unknown key 'inputs.obs.terms[0].index': expected one of camera, clip, clip_first, dim, "
            "frame, height, history, image, name, offset, point, scale, width",
        ),
    ],
)
def test_refusals(term: dict[str, Any], text: str) -> None:
    assert refusal(term) == text
