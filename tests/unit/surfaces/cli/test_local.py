"""Commands that work on files: each refusal is a sentence, and leaves everything as it was."""

import json
import os
import re
import resource
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import jsonschema_rs
import pytest

from audit.checkpoint import Checkpoint
from audit.cosign import Cosigner
from gateway.app import App
from gateway.engine.chance import SystemChance
from gateway.engine.clock import SystemClock
from gateway.engine.log_opening import QUARANTINE_META
from gateway.running import OPEN_FILES
from tests.canary import Canaries
from tests.unit.surfaces.cli.conftest import Hall, Program
from tests.unit.surfaces.door import ACTIONS, ORIGIN, Home


@pytest.fixture
def anywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Program:
    """The program in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Program({}, capsys)


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


# -- init --------------------------------------------------------------------------------------------------------------


def test_init_makes_a_gateway_that_its_own_checks_accept(anywhere: Program, tmp_path: Path, canaries: Canaries) -> None:
    folder = tmp_path / "new [x]"
    made = anywhere.json("init", str(folder), "--origin", "gw.test/audit", "--person", "ann")
    for who in ("person", "caller"):
        canaries.watch_secret(who, made[who]["key"])
    here = {"GATEWAY_CONFIG": made["config"], "GATEWAY_ADDR": "127.0.0.1:9"}

    assert made["person"]["name"] == "ann"
    assert sorted(Path(path).name for path in made["private_files"]) == ["auditor.key", "recovery.key"]
    assert all(Path(path).exists() for path in (*made["files"], *made["private_files"]))
    assert anywhere("check", **here).out == "OK: 2 actions in 1 file\n"
    assert anywhere("doctor", **here).code == 0
    private = [*folder.glob("*.key"), *(folder / "data").rglob("*")]
    assert all(not stat.S_IMODE(path.stat().st_mode) & 0o077 for path in private)
    policy = (folder / "trust.policy").read_text()
    assert made["log_key"] in policy
    canaries.watch_folder(folder)
    anywhere.heard.clear()


def test_init_tells_people_where_everything_is_and_what_comes_next(
    anywhere: Program, tmp_path: Path, canaries: Canaries
) -> None:
    said = anywhere("init", str(tmp_path / "a [bold]b[/] c"))

    assert said.code == 0
    assert "a [bold]b[/] c/gateway.yaml" in said.out
    assert "private: move it to another machine" in said.out
    assert f"cd '{tmp_path}/a [bold]b[/] c'" in said.out
    assert len(re.findall(r"gwk_[0-9a-z]{10}_[A-Za-z0-9_-]{43}", said.out)) == 2
    anywhere.heard.clear()


def test_init_refuses_before_it_writes_anything(anywhere: Program, tmp_path: Path) -> None:
    folder = tmp_path / "f"
    for arguments, environment in [
        (("--origin", "two words"), {}),
        (("--origin", "https://gw.test"), {}),
        (("--origin", ""), {}),
        (("--origin", "a//b"), {}),
        (("--origin", "../a"), {}),
        (("--auditor", "age1notours"), {}),
        (("--recovery", "x"), {}),
        (("--person", "a b"), {}),
        (("--person", "agent-a"), {}),
        ((), {"GATEWAY_ADDR": "nowhere"}),
    ]:
        said = anywhere("init", str(folder), *arguments, **environment)
        assert said.code in {1, 6}, arguments
        assert said.out == ""
        assert said.err
        assert not folder.exists(), arguments
    for name in (
        "gateway.yaml",
        "trust.policy",
        "data",
        "anchors",
        "catalog/starter.yaml",
        "auditor.key",
        "recovery.key",
    ):
        there = tmp_path / name.replace("/", "-")
        (there / name).parent.mkdir(parents=True)
        (there / name).write_text("mine")
        said = anywhere("init", str(there))
        assert said.code == 1, name
        assert "exists already" in said.err
        assert (there / name).read_text() == "mine"
        assert files_in(there) == (["catalog", name] if "/" in name else [name])
    plain = tmp_path / "plain"
    plain.write_text("")
    assert anywhere("init", str(plain / "below")).code == 1


# -- check and schema --------------------------------------------------------------------------------------------------


def test_check_names_every_mistake_with_its_place(stopped: Program, home: Home, tmp_path: Path) -> None:
    fine = stopped.json("check")
    assert stopped("check").out.endswith(f"\nOK: {len(ACTIONS)} actions in 1 file\n")
    assert (fine["ok"], fine["actions"]) == (True, sorted(ACTIONS))
    assert all(item["warning"] for item in fine["mistakes"])
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "a.yaml").write_text("services:\n  s: {base_url: 'http://a', allow: 1}\nactions: {}\n")
    said = stopped("check", str(bad))
    document = stopped.json("check", str(bad))

    assert said.code == 1
    assert re.search(rf"^{re.escape(str(bad))}/a.yaml:2:\d+: ", said.out, re.MULTILINE)
    assert said.out.endswith("\n1 mistake\n")
    assert document["ok"] is False
    assert {"file", "line", "column", "detail", "hint", "warning"} == set(document["mistakes"][0])
    for path in (tmp_path / "missing", tmp_path / "empty"):
        if path.name == "empty":
            path.mkdir()
        assert stopped("check", str(path)).code == 1
        assert stopped.json("check", str(path))["ok"] is False


def test_settings_that_cannot_be_used_end_every_command_in_a_sentence(anywhere: Program, tmp_path: Path) -> None:
    config = tmp_path / "gateway.yaml"
    for text in (None, "server: [", "server: {prot: 1}\n", "data_folder: ${NOT_SET}\n", "a: 1\na: 2\n", "\x00"):
        if text is not None:
            config.write_text(text)
        for command in (("check",), ("serve",), ("doctor",), ("recover", "--person", "a", "--reason", "b")):
            said = anywhere(*command)
            assert said.code == 2, (text, command)
            assert str(config.name) in said.err
            assert said.out == ""
    assert anywhere("check", GATEWAY_CONFIG="/nowhere/gateway.yaml").code == 2
    assert anywhere("check", GATEWAY_CONFIG=str(tmp_path)).code == 2


def test_schemas_are_schemas(anywhere: Program) -> None:
    for what in ("catalog", "settings"):
        schema = anywhere("schema", what).document
        jsonschema_rs.meta.validate(schema)
        assert anywhere.json("schema", what) == schema
    assert anywhere("schema").document["title"]
    assert anywhere("schema", "other").code == 2


# -- doctor ------------------------------------------------------------------------------------------------------------


def checks(document: object) -> dict[str, bool]:
    assert isinstance(document, dict)
    return {item["check"]: item["ok"] for item in document["checks"]}


def test_doctor_looks_at_a_stopped_gateway(stopped: Program, home: Home) -> None:
    fine = stopped.json("doctor")
    assert fine["ok"], fine
    (home.folder / "anchors").rename(home.folder / "gone")
    (home.folder / "data" / "vault.key").chmod(0o644)
    found = stopped("doctor")
    document = stopped.json("doctor")

    looked_at = ["settings", "catalog", "files", "anchors", "recipients", "store", "audit log"]
    assert checks(fine) == dict.fromkeys(looked_at, True)
    assert found.code == 1
    assert "FINDING" in found.out
    assert checks(document)["files"] is checks(document)["anchors"] is False
    assert "mode 0644" in json.dumps(document)


def test_doctor_looks_at_the_rest_though_the_catalog_cannot_be_read(stopped: Program, home: Home) -> None:
    (home.folder / "catalog").rename(home.folder / "gone")
    document = stopped.json("doctor")

    looked_at = ["settings", "catalog", "files", "anchors", "recipients", "store", "audit log"]
    assert checks(document) == dict.fromkeys(looked_at, True) | {"catalog": False}


def test_doctor_looks_at_a_running_gateway(person: Program, caller: Program, hall: Hall) -> None:
    fine = person.json("doctor")
    assert fine["ok"], fine
    assert "none unresolved" in json.dumps(fine)
    assert caller("doctor", GATEWAY_KEY="").code == 0
    # It would see nothing of what others left unresolved.
    assert "not looked at" in caller("doctor").out
    elsewhere = person.json("doctor", GATEWAY_ADDR=f"127.0.0.1:{hall.service.port}")
    assert checks(elsewhere)["gateway"] is False


def test_doctor_finds_writes_held_by_a_gateway_that_serves(person: Program, hall: Hall) -> None:
    store = hall.door.running.office.store
    hall.ask(store.put_meta(QUARANTINE_META, b"the store is old", ()))
    try:
        document = person.json("doctor")
    finally:
        hall.ask(store.put_meta(QUARANTINE_META, None, ()))

    assert document["ok"] is False
    assert "held: the store is old; stop the gateway, then see `gateway recover`" in json.dumps(document)
    assert "writes" not in checks(person.json("doctor"))


def test_doctor_finds_an_anchor_that_gets_nothing_any_more(stopped: Program, home: Home) -> None:
    # In the way of what every new checkpoint is written to first.
    (home.folder / "anchors" / "checkpoint.tmp").mkdir()

    stopped("doctor")
    assert "audit_anchor_failed" in stopped.heard[-1]
    document = stopped.json("doctor")

    details = [item["detail"] for item in document["checks"] if not item["ok"]]
    assert len(details) == 1
    assert "did not get the newest checkpoints" in details[0]
    assert "the anchors agree" not in json.dumps(document)


def test_doctor_tells_how_old_the_newest_cosignature_is(stopped: Program, home: Home) -> None:
    cosigner = Cosigner.generate("w.test/one", SystemChance().bytes)
    witness = {"vkey": str(cosigner.key), "url": "http://127.0.0.1:9"}
    home.configure("http://127.0.0.1:9", server={"port": 9}, audit={"witnesses": [witness]})
    log = home.folder / "data" / "audit" / ORIGIN
    text = Checkpoint(ORIGIN, 1, bytes(32)).to_text()

    def told(age_seconds: int | None) -> tuple[bool, str]:
        if age_seconds is not None:
            line = cosigner.cosign(text, SystemClock().wall_ms() // 1000 - age_seconds)
            (log / "checkpoints.log").write_text(f"{text}\n{line}\n")
        (found,) = [item for item in stopped.json("doctor")["checks"] if item["check"] == "witnesses"]
        return found["ok"], found["detail"]

    assert told(None) == (False, "none of 1 has cosigned this log; the gateway's own log says why")
    fine, detail = told(60)
    assert fine
    assert re.fullmatch(r"newest cosignature is 6\d s old", detail)
    assert told(6000)[0] is False
    home.configure("http://127.0.0.1:9", server={"port": 9}, audit={"witnesses": [witness | {"vkey": "x"}]})
    fine, detail = told(None)
    assert not fine
    assert "not a witness key" in detail


def test_witnesses_and_printing_are_anchors_too(stopped: Program, home: Home) -> None:
    def anchors(**audit: object) -> object:
        settings = json.loads(home.config.read_text())
        settings["audit"] |= {"anchors": []} | audit
        home.config.write_text(json.dumps(settings))
        return checks(stopped.json("doctor")).get("anchors")

    assert anchors() is False
    assert anchors(print_checkpoints=True) is None


# -- recover, faults, serve --------------------------------------------------------------------------------------------


def test_recover_says_when_there_is_nothing_to_recover(stopped: Program) -> None:
    word = ("recover", "--person", "operator", "--reason", "asked")

    assert stopped(*word).out.startswith("Nothing to recover")
    assert stopped.json(*word)["ok"] is True
    assert stopped("recover", "--person", "operator").code == 2
    for nobody in (("--person", " ", "--reason", "asked"), ("--person", "operator", "--reason", "")):
        said = stopped("recover", *nobody)
        assert (said.code, "is empty" in said.err) == (2, True), nobody
    missing = stopped(*word, "--auditor-key", str(stopped.environment["GATEWAY_CONFIG"]) + ".gone")
    assert missing.code == 1
    assert missing.err.endswith("cannot be read: No such file or directory.\n")


def test_what_others_could_read_is_not_opened(stopped: Program, home: Home) -> None:
    data = home.folder / "data"
    for path, mode in [
        (data, 0o755),
        (data / "keys" / "data.key", 0o640),
        (data / "vault.key", 0o604),
        (data / "gateway.db", 0o666),
    ]:
        before = stat.S_IMODE(path.stat().st_mode)
        path.chmod(mode)
        for command in (("keys", "list"), ("audit", "drain"), ("serve",)):
            said = stopped(*command)
            assert said.code == 1, (path, command)
            assert path.name in said.err
        path.chmod(before)
    assert stopped("keys", "list").code == 0


def test_a_data_folder_that_is_none_is_told(stopped: Program, home: Home) -> None:
    (home.folder / "data").rename(home.folder / "moved")
    for command in (("keys", "list"), ("serve",), ("audit", "drain")):
        said = stopped(*command)
        assert (said.code, "gateway init" in said.err) == (1, True)
    (home.folder / "moved").rename(home.folder / "data")
    (home.folder / "data" / "gateway.db").write_bytes(b"not a database" * 100)
    assert stopped("keys", "list").code == 1


def test_a_database_of_a_newer_version_is_refused(stopped: Program, home: Home) -> None:
    connection = sqlite3.connect(home.folder / "data" / "gateway.db")
    connection.execute("UPDATE alembic_version SET version_num = 'from-the-future'")
    connection.commit()
    connection.close()

    said = stopped("keys", "list")

    assert said.code == 1
    assert said.err.startswith("gateway: ")


def test_serve_tells_of_a_taken_port(stopped: Program, home: Home, hall: Hall) -> None:
    home.configure("http://127.0.0.1:9", server={"port": int(hall.door.netloc.rsplit(":", 1)[1])})

    said = stopped("serve")

    assert said.code == 1
    assert "cannot listen at" in said.err


def test_serve_takes_the_descriptors_that_the_system_grants(home: Home) -> None:
    home.configure("http://127.0.0.1:9", server={"port": 0})
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    shell = ["/bin/sh", "-c", 'ulimit -Sn 200; exec "$@"', "sh", sys.executable, "-m", "gateway", "serve"]
    environment = {**os.environ, "GATEWAY_CONFIG": str(home.config)}
    with subprocess.Popen(shell, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as served:
        assert served.stdout is not None
        served.stdout.readline()
        soft = resource.prlimit(served.pid, resource.RLIMIT_NOFILE)[0]
        served.terminate()
        served.communicate(timeout=60)

    assert served.returncode == 0
    assert soft == (OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)) > 200


def gateway(*arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "gateway", *arguments]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(command, stdin=nothing, stdout=pipe, stderr=pipe, text=True)


@pytest.mark.parametrize(("arguments", "code"), [(("no-such-thing",), 2), (("service", "--help"), 0), ((), 0)])
def test_faults_are_handed_to_the_kit_as_they_are(arguments: tuple[str, ...], code: int) -> None:
    with gateway("faults", *arguments) as program:
        out, err = program.communicate(timeout=30)

    assert program.returncode == code
    assert "usage: gateway faults" in out + err


def test_whoever_ends_the_program_ends_the_kit(tmp_path: Path) -> None:
    ready = tmp_path / "kit.json"
    with gateway("faults", "up", "--ledger", str(tmp_path / "l"), "--ready", str(ready), "--ignore-stdin") as program:
        assert program.stdout is not None
        program.stdout.readline()
        kit = json.loads(ready.read_text())["pid"]
        program.terminate()
        program.communicate(timeout=30)

    # Even SIGKILL: there is nobody else.
    assert kit == program.pid
    assert program.returncode == 0


def test_the_composition_reads_its_environment_once() -> None:
    given = {"GATEWAY_KEY": "k"}

    assert App(given).environment == given
    assert os.environ.get("GATEWAY_KEY") is None


def test_a_data_folder_without_its_keys_is_told_from_one_that_was_never_made(stopped: Program, home: Home) -> None:
    keys = home.folder / "data" / "keys"
    keys.rename(home.folder / "elsewhere")
    said = stopped("keys", "list")

    assert said.code == 1
    assert "Put the folder `keys` back" in said.err
    assert "gateway init" not in said.err
