"""The catalogue of policies of others, and the folders that they are fetched to."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from http_server import Server, serving

from edgert import assets
from edgert.catalog import CONTRACT, MODEL, RemoteFile, RemotePolicy, catalog, from_address, get, locate
from edgert.contract.document import parse_contract
from edgert.contract.recurrent import state_pairs
from edgert.download import DownloadError
from edgert.errors import ContractError, EdgertError, IntegrityError, UnknownNameError, UnsupportedError
from edgert.policy.model import read_policy

ONE = b"a network" * 1000
TWO = b"its weights" * 1000


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    with serving() as running:
        running.files |= {"/one": ONE, "/two": TWO}
        yield running


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDGERT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def walker(server: Server) -> RemotePolicy:
    return RemotePolicy(
        name="walker",
        files=(
            RemoteFile(name=MODEL, url=f"{server.url}/one", sha256=sha256(ONE), size_bytes=len(ONE)),
            RemoteFile(name="policy.onnx.data", url=f"{server.url}/two", sha256=sha256(TWO)),
        ),
        contract=b"schema = 1\n",
    )


def fetched(policy: RemotePolicy) -> bool:
    def silent(text: str) -> None:
        raise AssertionError(text)

    return get(policy, progress=lambda name, done, total: None, say=silent)


def refused(policy: RemotePolicy, error: type[EdgertError]) -> str:
    with pytest.raises(error) as caught:
        fetched(policy)
    return str(caught.value)


def test_a_policy_arrives_in_a_folder_of_its_own(server, home):
    policy = walker(server)
    assert not policy.is_fetched()
    assert fetched(policy)
    folder = policy.folder()
    assert policy.is_fetched()
    assert os.listdir(home / "policies") == [folder.name]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        MODEL: ONE,
        "policy.onnx.data": TWO,
        CONTRACT: b"schema = 1\n",
    }


def test_what_is_there_is_not_fetched_again(server, home):
    assert fetched(walker(server))
    server.asked.clear()
    assert not fetched(walker(server))
    assert server.asked == []


def test_another_version_is_another_folder(server, home):
    policy = walker(server)
    others = [
        replace(policy, contract=b""),
        replace(policy, files=policy.files[:1]),
        replace(policy, name="runner"),
        replace(policy, files=(policy.files[0], replace(policy.files[1], name="other.data"))),
    ]
    assert len({one.folder() for one in [policy, *others]}) == 5
    assert replace(policy, title="x", files=tuple(replace(one, url="http://x/") for one in policy.files)).folder() == (
        policy.folder()
    )


def test_a_fetch_that_broke_off_keeps_what_came(server, home):
    policy = walker(server)
    server.odd["/two"] = lambda to: to.answer(200, TWO[:77], length=len(TWO))
    assert "/two broke off: found 77 of " in refused(policy, DownloadError)
    assert not policy.is_fetched()
    del server.odd["/two"]
    assert fetched(policy)
    assert server.asked == [("/one", None), ("/two", None), ("/two", "bytes=77-")]
    assert os.listdir(home / "policies") == [policy.folder().name]


def test_a_damaged_file_of_a_fetch_that_broke_off_is_fetched_again(server, home):
    policy = walker(server)
    server.odd["/two"] = lambda to: to.answer(503)
    refused(policy, DownloadError)
    del server.odd["/two"]
    (staging,) = [path for path in (home / "policies").iterdir() if path.is_dir()]
    (staging / MODEL).write_bytes(b"damaged")
    assert fetched(policy)
    assert (policy.folder() / MODEL).read_bytes() == ONE


def test_a_wrong_digest_leaves_no_policy(server, home):
    policy = walker(server)
    server.files["/two"] = TWO[::-1]
    text = refused(policy, IntegrityError)
    assert f"found sha256 {sha256(TWO[::-1])}, expected sha256 {sha256(TWO)}" in text
    assert not policy.is_fetched()


@pytest.mark.parametrize(("name", "data"), [(MODEL, b"mine"), ("policy.onnx.data", None), (CONTRACT, b"schema = 1")])
def test_what_was_changed_there_is_said_and_not_touched(server, home, name, data):
    policy = walker(server)
    fetched(policy)
    path = policy.folder() / name
    path.unlink() if data is None else path.write_bytes(data)
    expected = {MODEL: sha256(ONE), "policy.onnx.data": sha256(TWO), CONTRACT: sha256(b"schema = 1\n")}[name]
    found = "nothing" if data is None else f"sha256 {sha256(data)}"
    assert refused(policy, IntegrityError) == (
        f"{path} is not what was fetched: found {found}, expected sha256 {expected}. "
        f"Delete {policy.folder()} and run it again; a contract of your own is named with --contract"
    )
    assert path.exists() == (data is not None)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_home_that_cannot_be_written_is_said(server, home):
    home.mkdir(mode=0o500)
    assert refused(walker(server), EdgertError).startswith(f"cannot write {home}/policies: found Permission denied.")


def test_a_home_that_is_a_file_is_said(server, home):
    home.write_text("")
    assert refused(walker(server), EdgertError) == (
        f"cannot write {home}/policies: found Not a directory. "
        "Make room and check its permissions, or set EDGERT_HOME to another folder"
    )


def test_without_a_home_nothing_is_there(server, monkeypatch):
    for name in ("EDGERT_HOME", "XDG_STATE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    assert not walker(server).is_fetched()
    assert refused(walker(server), EdgertError) == (
        "there is no home folder for edgert's state. Set EDGERT_HOME to a folder"
    )


FETCH = """
import json, sys
from edgert.catalog import RemoteFile, RemotePolicy, get
files = tuple(RemoteFile(**entry) for entry in json.loads(sys.argv[1]))
policy = RemotePolicy(name="walker", files=files)
print(get(policy, progress=lambda *done: None, say=lambda text: print(text, file=sys.stderr)))
"""


def test_processes_at_once_fetch_once(server, home):
    """One fetches, slowly; the others wait for it and find the policy."""
    policy = replace(walker(server), contract=b"")
    files = json.dumps(
        [{name: getattr(file, name) for name in ("name", "url", "sha256", "size_bytes")} for file in policy.files]
    )
    running: list[subprocess.Popen[str]] = []

    def start() -> None:
        command = [sys.executable, "-c", FETCH, files]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))

    def slowly(to) -> None:
        """Answers once the others say that they wait."""
        for _ in range(2):
            start()
        for process in running[1:]:
            assert process.stderr is not None
            assert process.stderr.readline() == "another process fetches walker: waiting\n"
        to.serve(ONE, None)

    server.odd["/one"] = slowly
    start()
    first = running[0].communicate(timeout=60)
    others = [process.communicate(timeout=60) for process in running[1:]]
    assert (first, others) == (("True\n", ""), [("False\n", "")] * 2)
    assert [path for path, _ in server.asked] == ["/one", "/two"]
    assert os.listdir(home / "policies") == [policy.folder().name]


def test_an_address_with_its_digest():
    policy = from_address(f"https://host/a/My%20walk.v2.onnx?raw=1#sha256={sha256(ONE).upper()}")
    assert policy.name == "My_20walk_v2"
    assert policy.files == (RemoteFile(name=MODEL, url="https://host/a/My%20walk.v2.onnx?raw=1", sha256=sha256(ONE)),)
    assert from_address(f"https://host/#sha256={'0' * 64}").name == "policy"


@pytest.mark.parametrize(
    ("fragment", "found"),
    [("", "no #sha256="), ("#sha256=12", "#sha256=12"), (f"#md5={'0' * 64}", f"#md5={'0' * 64}")],
)
def test_an_address_without_its_digest_is_refused(fragment, found):
    with pytest.raises(UnsupportedError) as caught:
        from_address("https://host/walk.onnx" + fragment)
    assert str(caught.value) == (
        f"an address without its digest is not fetched: found {found}, expected https://host/walk.onnx#sha256= "
        "and the 64 hexadecimal digits of the file. "
        "Whoever publishes the file can tell them; of a file that you trust, sha256sum prints them"
    )


TOML = f"""
schema = 1
[policies.walker]
title = "t"
robot = "r"
licence = "l"
source = "s"
expect = "e"
[[policies.walker.files]]
name = "policy.onnx"
url = "https://host/policy.onnx"
sha256 = "{"0" * 64}"
"""


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "models"
    (folder / "catalog").mkdir(parents=True)
    monkeypatch.setattr(assets, "root", lambda kind: folder)
    return folder


def test_a_catalogue_is_read_with_the_contracts_beside_it(models, home):
    (models / "catalog.toml").write_text(TOML)
    assert catalog()["walker"].contract == b""
    (models / "catalog/walker.toml").write_text("schema = 1")
    policy = catalog()["walker"]
    assert (policy.name, policy.title, policy.robot, policy.contract) == ("walker", "t", "r", b"schema = 1")
    assert (policy.licence, policy.source, policy.expect) == ("l", "s", "e")
    assert policy.files == (RemoteFile(name=MODEL, url="https://host/policy.onnx", sha256="0" * 64),)
    with pytest.raises(UnknownNameError) as caught:
        locate("walker")
    assert str(caught.value) == "policy 'walker' is not downloaded. Run: edgert policy get walker"
    policy.folder().mkdir(parents=True)
    assert locate("walker") == policy.folder() / MODEL
    assert locate("runner") is None


def test_an_installation_without_a_catalogue_knows_nothing(models):
    assert catalog() == {}
    assert locate("walker") is None


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("schema = 1", "schema = 2", "key 'schema' is wrong: found 2, expected 1. Update edgert"),
        ("schema = 1", "", "key 'schema' is missing"),
        ('title = "t"', "", "key 'policies.walker.title' is missing"),
        ('title = "t"', 'title = "t"\nsize = 1', "unknown key 'policies.walker.size'"),
        ('name = "policy.onnx"', 'name = "../policy.onnx"', "expected the name of a file in a folder"),
        ('name = "policy.onnx"', 'name = "/etc/passwd"', "expected the name of a file in a folder"),
        ('name = "policy.onnx"', 'name = ".."', "expected the name of a file in a folder"),
        ('name = "policy.onnx"', 'name = "policy.onnx.part"', "expected the name of a file in a folder"),
        ('name = "policy.onnx"', 'name = "a\\u0000b"', "expected the name of a file in a folder"),
        ('name = "policy.onnx"', 'name = "other.onnx"', "found other.onnx, expected policy.onnx and others beside it"),
        ("https://host", "file:///etc", "key 'policies.walker.files[0].url' is wrong: found 'file:///etc/policy.onnx'"),
        ('sha256 = "00', 'sha256 = "0', "expected 64 lowercase hexadecimal digits"),
        ('sha256 = "00', 'sha256 = "AA', "expected 64 lowercase hexadecimal digits"),
        ('sha256 = "00', 'size_bytes = 0\nsha256 = "00', "files[0].size_bytes' is wrong: found 0, expected at least 1"),
        ('sha256 = "00', 'size_bytes = 99999999999\nsha256 = "00', "expected at least 1 and at most 2.14748e+09"),
        ('sha256 = "00', 'mirror = "x"\nsha256 = "00', "unknown key 'policies.walker.files[0].mirror'"),
        ("[[policies.walker.files]]", "[policies.walker.files]", "expected a list of tables"),
    ],
)
def test_a_catalogue_that_is_wrong_is_refused(models, old, new, text):
    assert old in TOML
    (models / "catalog.toml").write_text(TOML.replace(old, new, 1))
    with pytest.raises(ContractError) as caught:
        catalog()
    assert str(caught.value).startswith(f"{models}/catalog.toml: ")
    assert text in str(caught.value)


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/b", "Walker", ".walker", "a.onnx", "", "1", "a" * 65])
def test_hostile_names_of_policies_are_refused(models, name):
    (models / "catalog.toml").write_text(TOML.replace("policies.walker", f'policies."{name}"'))
    with pytest.raises(ContractError) as caught:
        catalog()
    assert "expected a small letter, then small letters, digits and _" in str(caught.value)


@pytest.mark.parametrize("name", [MODEL, CONTRACT])
def test_two_files_of_a_name_are_refused(models, name):
    files = TOML.partition("[[")[2].replace('"policy.onnx"', f'"{name}"')
    (models / "catalog.toml").write_text(f"{TOML}\n[[{files}")
    with pytest.raises(ContractError) as caught:
        catalog()
    assert f"found policy.onnx, {name}, expected policy.onnx and others beside it, each once" in str(caught.value)


def test_the_bundled_catalogue_knows_what_it_should():
    policies = catalog()
    assert set(policies) == {"go1_playground", "g1_rl_mjlab", "g1_holosoma"}
    assert not set(policies) & {*assets.names("models"), *assets.names("sims")}
    assert {path.stem for path in (assets.root("models") / "catalog").iterdir()} <= set(policies)
    for policy in policies.values():
        assert all(file.url.startswith("https://") and file.size_bytes for file in policy.files)
        assert all([policy.title, policy.robot, policy.licence, policy.source, policy.expect])


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("go1_playground", "unitree_go1_playground/go1_policy.onnx"),
        ("g1_holosoma", "unitree_g1_holosoma/ppo_g1_29dof.onnx"),
    ],
)
def test_the_bundled_contracts_fit_their_models(shared, name, model):
    policy = catalog()[name]
    file = read_policy(shared / "policies" / model)
    assert file.sha256 == policy.files[0].sha256
    contract = parse_contract(tomllib.loads(policy.contract.decode()) | _action(file.outputs[0], policy), name, {})
    assert {key: spec.dim for key, spec in contract.inputs.items()} == {
        key: shape[1] for key, shape in file.input_shapes.items()
    }
    assert len(contract.action.joints) == file.output_shapes[file.outputs[0]][1]
    assert contract.robot == policy.robot
    assert state_pairs(tuple(file.input_shapes), file.outputs) == {}


def _action(output: str, policy: RemotePolicy) -> dict[str, object]:
    """The output of a model that has one goes without saying in its contract."""
    return {"action": {**tomllib.loads(policy.contract.decode())["action"], "output": output}}
