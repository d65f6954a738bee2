"""A person is erased from the log: the key goes, the log says so, every hash stays valid, nothing can be read again."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from audit.boxes import erased_subjects
from audit.disk import DiskDirectory
from fixtures.service.server import DeployService
from gateway.engine.admitting import PERSONAL
from gateway.engine.subjects import Subjects
from gateway.store.port import Record, Refused
from tests.scenario.kit import LOOK_SECONDS, Home, Inside, environment, gateway_program, write_action

SHREDDED = "[shredded]"
PERSON = "ann.archer@people.test"
FIELDS = {"at": 1, "url": f"https://crm.test/people/{PERSON}", "conflict_key": f"person:{PERSON}", "service": "crm"}
NAMES = ("url", "conflict_key")


async def record(home: Home, person: str, fields: dict[str, object]) -> None:
    async with home.running() as api:
        office = api.running.office
        body = await office.subjects.box(fields, person, NAMES)
        again = await office.subjects.box(fields, person, NAMES)
        assert body["url"]["$box"] == again["url"]["$box"]
        await office.store.note([Record("looked_up", body), Record("looked_up", again)])


def shown(home: Home, *, boxed: bool = False, command: str = "show") -> str:
    """What an auditor reads: with the gateway's program on its folder, or with the files alone."""
    run, words = (home.audit_within, ()) if boxed else (home.within, ("audit",))
    done = run(*words, command, str(home.log_folder()), "--key", str(home.folder / "auditor.key"), "--json")
    assert done.returncode == (4 if command == "export" else 0), done.stderr
    return done.stdout


def holds(folder: Path, text: bytes) -> bool:
    return any(text in path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_a_shredded_person_is_gone_from_the_log_for_good_and_the_log_verifies(
    home: Home, service: DeployService
) -> None:
    home.configure({"deploys": service.url}, {"deploy": write_action()})
    await record(home, PERSON, dict(FIELDS))
    await record(home, "bob", {"at": 1, "url": "https://crm.test/bob", "service": "crm"})
    rows = home.query("SELECT handle, tag, wrapped FROM subjects")
    assert len(rows) == 2
    assert PERSON not in shown(home, boxed=True)
    assert PERSON in shown(home)
    assert PERSON in shown(home, command="export")
    assert not holds(home.data, PERSON.encode())

    shredded = home.within("subjects", "shred", PERSON, "--by", "dpo", "--json")

    assert shredded.returncode == 0, shredded.stderr
    (tag,) = json.loads(shredded.stdout)["erased"]
    ((_, _, wrapped),) = [row for row in rows if row[1].hex() == tag]
    assert not holds(home.data, wrapped), "the deleted key must not stay in the database's free space"
    assert [row[1].hex() for row in home.query("SELECT handle, tag FROM subjects")] != [tag]
    code, said = home.verify()
    assert code == 0, said
    assert SHREDDED in shown(home, boxed=True)
    records = [json.loads(line) for line in shown(home).splitlines()]
    erased = [item for item in records if SHREDDED in json.dumps(item) and "looked_up" in json.dumps(item)]
    assert len(erased) == 2
    assert "https://crm.test/bob" in json.dumps(records), "others can still be read"
    assert "dpo" in json.dumps(records)
    assert PERSON not in json.dumps(records)
    assert home.within("subjects", "shred", PERSON).returncode == 1


async def test_personal_arguments_reach_the_log_in_boxes_only_and_go_with_their_person(
    home: Home, service: DeployService, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests: dict[str, str] = {}

    def noted(subjects: Subjects, value: str, mark: Callable[[Subjects, str], str] = Subjects.mark) -> str:
        digests[value] = mark(subjects, value)
        return digests[value]

    monkeypatch.setattr(Subjects, "mark", noted)
    named = {"type": "string", "pattern": "^[a-z0-9_.-]{1,60}$"}
    arguments = {
        "type": "object",
        "properties": {"name": named | {"personal": True}},
        "required": ["name"],
        "additionalProperties": False,
    }
    deploy = write_action("PUT", input=arguments, subject="person:{name}", conflict_key="deploy:{name}")
    home.configure({"deploys": service.url}, {"deploy": deploy, "plain": write_action("PUT")})
    async with home.running() as api:
        done = await api.begin("deploy", name="ann.archer", key="call-1", wait=10)
        plain = await api.begin("plain", name="bob.builder", key="call-2", wait=10)
        assert (done["outcome"], plain["outcome"]) == ("success", "success")
        stored = await api.running.office.store.get(done["operation_id"])
        assert stored is not None
        assert done["target"]["url"].endswith("/deployments/{name}")
        assert plain["target"]["url"].endswith("/deployments/bob.builder")
        assert (holds(home.data, b"ann.archer"), holds(home.data, b"bob.builder")) == (False, True)
    text = shown(home, boxed=True)
    assert "ann.archer" not in text
    assert stored.fingerprint not in text
    assert stored.request_sha256 not in text
    assert [digest for digest in digests if digest in text] == []
    assert "bob.builder" in text
    assert len(home.query("SELECT tag FROM subjects")) == 1
    assert home.within("subjects", "shred", "ann.archer").returncode == 1
    assert home.within("subjects", "shred", "person:ann.archer").returncode == 0
    of_ann = [json.loads(line)["record"] for line in shown(home).splitlines() if done["operation_id"] in line]
    (admitted,) = [fields for fields in of_ann if fields["ev"] == "admitted"]
    assert "url" in admitted
    assert {admitted[name] for name in PERSONAL if name in admitted} == {SHREDDED}
    # Whoever can guess an answer must not find its digest either.
    (answered,) = [fields["body_sha256"] for fields in of_ann if fields["ev"] == "observation"]
    assert answered in digests.values()
    # The admission's mark and the attempt's are one, so that they can be held against each other.
    assert len({fields["request"] for fields in of_ann if "request" in fields}) == 1
    code, said = home.verify()
    assert code == 0, said


async def test_who_comes_back_gets_a_new_key_and_who_asks_is_named(home: Home, service: DeployService) -> None:
    home.configure({"deploys": service.url}, {"deploy": write_action()})
    async with home.running() as api:
        subjects = api.running.office.subjects
        first = await subjects.box(dict(FIELDS), PERSON, NAMES)
        for by in ("", "x" * 256):
            with pytest.raises(Refused, match="on record"):
                await subjects.shred(PERSON, by=by)
        (tag,) = await subjects.shred(PERSON, by="dpo")
        second = await subjects.box(dict(FIELDS), PERSON, NAMES)
    assert first["url"]["$box"] == tag.hex()
    assert second["url"]["$box"] != tag.hex()
    code, said = home.verify()
    assert code == 0, said


async def as_person(home: Home, api: Inside, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command beside the gateway in this loop, which must not stand still meanwhile."""
    told = environment(
        GATEWAY_CONFIG=str(home.config), GATEWAY_ADDR=api.running.site.address, GATEWAY_KEY=home.person_key
    )
    work = partial(
        subprocess.run, gateway_program(*arguments), env=told, capture_output=True, text=True, timeout=60, check=False
    )
    return await asyncio.to_thread(work)


async def test_a_running_gateway_erases_at_a_person_s_word_and_a_repeat_erases_nothing(
    home: Home, service: DeployService
) -> None:
    home.configure({"deploys": service.url}, {"deploy": write_action()})
    async with home.running() as api:
        subjects = api.running.office.subjects
        box = await subjects.box(dict(FIELDS), PERSON, NAMES)
        await api.running.office.store.note([Record("looked_up", box)])
        await subjects.box(dict(FIELDS), "bob", NAMES)
        refused = await api.client.call("POST", "/v1/subjects/shred", body={"subject": PERSON})
        assert (refused.status, refused.document["code"]) == (403, "forbidden")
        # While it serves, too, its auditor reads what was boxed.
        while await api.running.office.store.tail(1):
            await asyncio.sleep(LOOK_SECONDS)
        folder, key = str(home.log_folder()), str(home.folder / "auditor.key")
        assert PERSON in (await as_person(home, api, "audit", "show", folder, "--key", key)).stdout
        first = await api.person.call("POST", "/v1/subjects/shred", body={"subject": PERSON})
        again = await api.person.call("POST", "/v1/subjects/shred", body={"subject": PERSON})
        assert (first.status, first.document) == (200, {"erased": [box["url"]["$box"]]})
        assert (again.status, again.document) == (200, {"erased": []})
        done = await as_person(home, api, "subjects", "shred", "bob", "--by", "dpo", "--json")
        assert (done.returncode, len(json.loads(done.stdout)["erased"])) == (0, 1), done.stderr
        assert (await as_person(home, api, "subjects", "shred", "bob")).returncode == 1
        for body in ({}, {"subject": ""}, {"subject": "x", "decided_by": "a\nb"}, {"subject": "x", "by": "y"}):
            answer = await api.person.call("POST", "/v1/subjects/shred", body=body)
            assert (answer.status, answer.document["code"]) == (422, "invalid_input"), body
    said = [record for record in home.records() if record.get("ev") == "subject_erased"]
    assert [record["person"] for record in said] == ["operator", "dpo, asked by operator"]
    log = DiskDirectory(home.log_folder())
    assert len(erased_subjects(log)) == 2
    assert PERSON not in shown(home)
    code, verdict = home.verify()
    assert code == 0, verdict


async def test_boxes_stay_closed_where_the_keys_cannot_be_had_and_the_rest_is_read(
    home: Home, service: DeployService, tmp_path: Path
) -> None:
    home.configure({"deploys": service.url}, {"deploy": write_action()})
    await record(home, PERSON, dict(FIELDS))
    words = ("audit", "show", str(home.log_folder()), "--key", str(home.folder / "auditor.key"))
    copy = tmp_path / "copied"
    shutil.copytree(home.log_folder(), copy)
    elsewhere = home.within("audit", "show", str(copy), *words[3:])
    assert (elsewhere.returncode, PERSON in elsewhere.stdout, "$box" in elsewhere.stdout) == (0, False, True)
    (home.data / "keys" / "personal.key").write_text("nonsense")
    damaged = home.within(*words)
    assert (damaged.returncode, "$box" in damaged.stdout) == (0, True)
    assert "stay in their boxes" in damaged.stderr
    (home.data / "keys" / "personal.key").unlink()
    assert (home.within(*words).returncode, home.within(*words).stderr) == (0, "")
    home.config.unlink()
    assert home.within(*words).returncode == 0
