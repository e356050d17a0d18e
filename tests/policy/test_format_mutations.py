"""Files and metadata of other trainers with bytes changed at random: a contract, or a refusal in one printable line.

Each reader's own tests change its tables; here the bytes go the whole way, through the parsers, the choice of a format
and the checks of what was read, to what `inspect` shows. A reader that is not ready for what it finds fails here: its
user gets a refusal that names the format, but it has a bug.
"""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from metadata_examples import as_json, printed
from support import linear_model, save

from edgert.contract.formats import Body
from edgert.errors import EdgertError
from edgert.policy.doubts import doubts
from edgert.policy.facts import read_facts
from edgert.policy.fields import contract_fields

FOLDER = Path(__file__).resolve().parents[1] / "contract"


def of(name: str, *constants: str) -> tuple[Any, ...]:
    """What the tests of a format read."""
    module = runpy.run_path(str(FOLDER / f"test_{name}.py"), run_name=name)
    return tuple(module[constant] for constant in constants)


def cases() -> dict[str, tuple[dict[str, str], dict[str, str], int, int, tuple[str, ...]]]:
    """Files by name, metadata by key, numbers of input and output, joints of the robot."""
    (deploy, robot), (descriptors,) = of("unitree", "DEPLOY", "ROBOT"), of("isaac_lab", "DESCRIPTORS")
    (config, base, wheels), (velocity, size) = of("rl_sar", "CONFIG", "BASE", "ROBOT"), of("mjlab", "VELOCITY", "SIZE")
    (old, experiment), (manifest, facts) = of("holosoma", "OLD", "CONFIG"), of("microduck", "MANIFEST", "FACTS")
    (package,) = of("packages", "MANIFEST")
    new = as_json(old | {"experiment_config": experiment})
    return {
        "unitree": ({"deploy.yaml": yaml.safe_dump(deploy)}, {}, 38, 4, robot),
        "isaac_lab": ({"IO_descriptors.yaml": yaml.safe_dump(descriptors)}, {}, 26, 4, ()),
        "rl_sar": ({"config.yaml": yaml.safe_dump(config), "base.yaml": yaml.safe_dump(base)}, {}, 63, 4, wheels),
        "mjlab": ({}, printed(velocity), size, 4, ()),
        "holosoma": ({}, new, 29, 4, ()),
        "microduck": ({"manifest.json": json.dumps(manifest)}, {"microduck": json.dumps(facts)}, 61, 14, ()),
        "policy_package": ({"manifest.json": json.dumps(package)}, {}, 3, 3, ()),
    }


CASES = cases()
SIGNS = [
    "[",
    "]",
    "{",
    "}",
    ":",
    ",",
    ";",
    '"',
    "-",
    "1e999",
    "nan",
    "-inf",
    "null",
    "true",
    "0",
    "\n",
    "!!",
    "&a",
    "*a",
]


@st.composite
def mutations(draw: st.DrawFn, text: str) -> bytes:
    data = bytearray(text.encode())
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.sampled_from(("replace", "insert", "cut", "word", "truncate", "repeat"))):
            case "replace" if data:
                data[at] = draw(st.integers(0, 255))
            case "insert":
                data[at:at] = draw(st.sampled_from(SIGNS)).encode()
            case "cut":
                del data[at : at + draw(st.integers(1, 30))]
            case "word":  # a value in place of another
                end = next((i for i in range(at, len(data)) if data[i] in b" ,\n]}"), len(data))
                data[at:end] = draw(st.sampled_from(SIGNS)).encode()
            case "truncate":
                del data[at:]
            case _:
                data[at:at] = data[at : at + draw(st.integers(1, 40))]
    return bytes(data)


def looked_at(path: Path, joints: tuple[str, ...]) -> None:
    """What `inspect` and `run` do with a policy, up to its contract."""
    try:
        facts = read_facts(path, None, Body(joints=joints), None)
        contract, unfit = facts.judged()
        said = [*facts.notes, *map(str, unfit), str(facts.refusal() or "")]
        found = [] if contract is None else list(doubts(contract, facts.document))
        fields = contract_fields(facts, contract, found)
        json.dumps([field.name for field in fields])
    except EdgertError as error:
        assert str(error).isprintable()  # noqa: PT017  # only if it is refused
        said = [str(error)]
    assert [line for line in said if "the reader of policy format" in line] == []


@pytest.mark.parametrize("name", CASES)
def test_the_files_themselves_are_read(name: str, tmp_path: Path) -> None:
    files, metadata, size, nact, joints = CASES[name]
    facts = read_facts(put(tmp_path, files, metadata, size, nact), None, Body(joints=joints), None)
    assert facts.notes[0].startswith(f"format {name}: ")


def put(folder: Path, files: dict[str, Any], metadata: dict[str, str], size: int, nact: int) -> Path:
    for file, text in files.items():
        (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    model = linear_model(dim=size, nact=nact)
    for key, value in metadata.items():
        model.metadata_props.add(key=key, value=value)
    return save(model, folder / "policy.onnx")


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_no_changed_byte_gives_a_traceback(tmp_path_factory: Any, name: str, data: st.DataObject) -> None:
    files, metadata, size, nact, joints = CASES[name]
    files, metadata = dict(files), dict(metadata)
    table: dict[str, Any] = data.draw(st.sampled_from([part for part in (files, metadata) if part]))
    key = data.draw(st.sampled_from(sorted(table)))
    changed = data.draw(mutations(table[key]))
    table[key] = changed if table is files else changed.decode("utf-8", "replace")
    looked_at(put(tmp_path_factory.mktemp("mutated"), files, metadata, size, nact), joints)
