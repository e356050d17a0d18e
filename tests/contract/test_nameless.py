"""rsl_rl's and Brax's exports, which state nothing: known by names, refused with help, completed by policy.toml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgert.contract.formats import Evidence, choose_format
from edgert.contract.nameless import BRAX, RSL_RL
from edgert.errors import ContractError
from edgert.policy import load_policy


def evidence(inputs: dict[str, Any], outputs: dict[str, Any], **changes: Any) -> Evidence:
    return Evidence(model="p.onnx", inputs=inputs, outputs=outputs, metadata={}, **changes)


MLP = {"obs": (1, 48)}, {"actions": (1, 12)}
LSTM = (
    {"obs": (1, 48), "h_in": (1, 1, 8), "c_in": (1, 1, 8)},
    {"actions": (1, 12), "h_out": (1, 1, 8), "c_out": (1, 1, 8)},
)
GRU = {"obs": (1, 48), "h_in": (1, 1, 8)}, {"actions": (1, 12), "h_out": (1, 1, 8)}


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (MLP, "inputs obs and output actions"),
        (LSTM, "inputs obs and output actions, memory h_in, c_in"),
        (GRU, "inputs obs and output actions, memory h_in"),
    ],
)
def test_rsl_rl_is_known_by_names(model: Any, words: str) -> None:
    assert choose_format(evidence(*model)) == ("rsl_rl", words)
    reading = RSL_RL.read(evidence(*model))
    assert reading.document == {}
    assert list(reading.reasons) == ["inputs.obs.terms"]


def test_brax_is_known_by_its_output() -> None:
    found = evidence({"obs": (1, 48)}, {"continuous_actions": (1, 12)})
    assert choose_format(found) == ("brax", "inputs obs and output continuous_actions")
    assert BRAX.read(found).reasons["inputs.obs.terms"] == (
        "Brax exports state nothing: normaliser and tanh are inside the network, the order of terms and a gait clock "
        "in the environment's code"
    )


def test_any_format_that_says_more_wins() -> None:
    deploy = {"joint_ids_map": [0], "stiffness": [1.0], "observations": {}, "actions": {}}
    chosen = choose_format(evidence(*MLP, sidecars={"deploy.yaml": deploy}))
    assert chosen is not None
    assert chosen[0] == "unitree"


@pytest.mark.parametrize("outputs", [{"actions": (1, 2), "value": (1, 1)}, {"out": (1, 2)}])
def test_other_names_are_of_nobody(outputs: dict[str, Any]) -> None:
    assert choose_format(evidence({"obs": (1, 48)}, outputs)) is None


def test_playground_says_what_is_missing(shared: Path) -> None:
    with pytest.raises(ContractError) as caught:
        load_policy(shared / "policies/unitree_go1_playground/go1_policy.onnx")
    text = str(caught.value)
    assert "joints.names (the joints in the policy's order)" in text
    assert "inputs.obs.terms (what its 48 numbers are, in their order; Brax exports state nothing:" in text
