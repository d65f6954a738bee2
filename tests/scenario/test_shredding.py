"""A person is erased from the log: the key goes, the log says so, every hash stays valid, nothing can be read again."""

import json
from pathlib import Path

import pytest

from fixtures.service.server import DeployService
from gateway.engine.admitting import PERSONAL
from gateway.store.port import Record, Refused
from tests.scenario.kit import Home, write_action

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


def shown(home: Home) -> str:
    done = home.run("audit", "show", str(home.log_folder()), "--key", str(home.folder / "auditor.key"), "--json")
    assert done.returncode == 0, done.stderr
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
    assert PERSON not in shown(home)
    assert not holds(home.data, PERSON.encode())

    shredded = home.run("subjects", "shred", PERSON, "--by", "dpo", "--json")

    assert shredded.returncode == 0, shredded.stderr
    (tag,) = json.loads(shredded.stdout)["erased"]
    ((_, _, wrapped),) = [row for row in rows if row[1].hex() == tag]
    assert not holds(home.data, wrapped), "the deleted key must not stay in the database's free space"
    assert [row[1].hex() for row in home.query("SELECT handle, tag FROM subjects")] != [tag]
    code, said = home.verify()
    assert code == 0, said
    records = [json.loads(line) for line in shown(home).splitlines()]
    erased = [item for item in records if '"erased"' in json.dumps(item) and "looked_up" in json.dumps(item)]
    assert len(erased) == 2
    assert "dpo" in json.dumps(records)
    assert PERSON not in json.dumps(records)
    assert home.run("subjects", "shred", PERSON).returncode == 1


async def test_personal_arguments_reach_the_log_in_boxes_only_and_go_with_their_person(
    home: Home, service: DeployService
) -> None:
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
    text = shown(home)
    assert "ann.archer" not in text
    assert stored.fingerprint not in text
    assert stored.request_sha256 not in text
    assert "bob.builder" in text
    assert len(home.query("SELECT tag FROM subjects")) == 1
    assert home.run("subjects", "shred", "ann.archer").returncode == 1
    assert home.run("subjects", "shred", "person:ann.archer").returncode == 0
    of_ann = [json.loads(line)["record"] for line in shown(home).splitlines() if done["operation_id"] in line]
    (admitted,) = [fields for fields in of_ann if fields["ev"] == "admitted"]
    assert "url" in admitted
    assert {admitted[name] for name in PERSONAL if name in admitted} == {"erased"}
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
