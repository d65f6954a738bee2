"""A gateway's log goes on under a new key, or for other readers; every crash on the way is harmless."""

import asyncio
import json
import shutil
import signal
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from audit.bodies import LOG_KEY, RECIPIENTS, KeyChange, read_body
from audit.checkpoint import CHECKPOINT, HISTORY, open_checkpoint, split_notes
from audit.disk import DiskDirectory
from audit.keyfiles import write_key
from audit.keyring import RecipientKey, Role, WrongKey, digest_of
from audit.log import chunks, read_open, segments
from audit.note import NoteSigner, UnknownSigner, open_note
from audit.record import Kind
from audit.report import Exit, Report
from audit.show import show
from audit.trust import TrustPolicy
from audit.verify import verify
from fixtures.service.server import DeployService
from gateway.engine.chance import SystemChance
from gateway.engine.clock import SystemClock
from gateway.store import points as store_points
from gateway.surfaces.cli.client import AnswerLost, Client, Unreachable
from tests.scenario.kit import LOOK_SECONDS, Home, Inside, write_action

SECONDS = 30.0


def configure(home: Home, service: DeployService, **audit: Any) -> None:
    quick = {"seal_interval_seconds": 0.05, "checkpoint_interval_seconds": 0.05}
    home.configure({"deploys": service.url}, {"deploy": write_action()}, audit=quick | audit)


def log_of(home: Home) -> DiskDirectory:
    return DiskDirectory(home.log_folder())


def changes(home: Home) -> list[KeyChange]:
    log = log_of(home)
    bodies = [
        read_body(Kind.KEY_CHANGE, entry.body)
        for first in segments(log)
        for chunk in chunks(log, first)
        for entry in chunk.entries()
        if entry.header.kind == Kind.KEY_CHANGE
    ]
    return [body for body in bodies if isinstance(body, KeyChange)]


def private_keys(home: Home) -> list[NoteSigner]:
    return [NoteSigner.parse(line) for line in (home.data / "keys" / "log.key").read_text().splitlines()]


def pinned(home: Home) -> TrustPolicy:
    return TrustPolicy.parse((home.folder / "trust.policy").read_text())


def policy_file(home: Home, policy: TrustPolicy) -> Path:
    path = home.folder / "given.policy"
    path.write_text(policy.to_text())
    return path


async def handed_over(home: Home, api: Inside) -> None:
    """The old key has said its last word, and is gone."""
    async with asyncio.timeout(SECONDS):
        while api.running.office.publisher.handing_over or len(private_keys(home)) > 1:
            await asyncio.sleep(LOOK_SECONDS)


async def change_key(api: Inside) -> dict[str, Any]:
    answer = await api.person.call("POST", "/v1/audit/rotate-keys")
    assert answer.status == 200, answer.document
    document: dict[str, Any] = answer.document
    return document


async def test_a_new_key_speaks_from_the_cut_on_and_every_policy_gets_the_verdict_it_deserves(
    home: Home, service: DeployService
) -> None:
    configure(home, service)
    (old,) = private_keys(home)
    async with home.running() as api:
        await api.begin("deploy", name="a", wait=10)
        made = await change_key(api)
        await handed_over(home, api)
        await api.begin("deploy", name="b", wait=10)
    async with home.running() as api:
        await api.begin("deploy", name="c", wait=10)

    cut = made["cut"]
    (new,) = private_keys(home)
    both = TrustPolicy.parse(made["policy"])
    assert [(key.public, key.since, key.until) for key in both.logs] == [
        (old.key.public, 0, cut),
        (new.key.public, cut, None),
    ]
    assert changes(home) == [KeyChange(LOG_KEY, old.key.digest, new.key.digest, "operator")]
    code, said = home.verify(trust=policy_file(home, both))
    assert code == 0, said
    assert "restarts   2" in said, "clean ends are counted as well"
    for policy, lacking in ((pinned(home), "new_key"), (TrustPolicy(both.logs[1:]), "old_key")):
        report = judged(home, policy)
        assert (report.exit, lacking in {finding.code for finding in report.findings}) == (Exit.NOT_PROVEN, True)
    notes = list(split_notes((home.log_folder() / HISTORY).read_bytes()))
    sizes = [open_checkpoint(note, both.logs).size for note in notes]
    # The old key signed all that is its own, up to the cut, and nothing behind it.
    assert cut in sizes
    by_old = [note for note in notes if signed_by(note, old)]
    assert max(open_checkpoint(note, [old.key]).size for note in by_old) == cut
    (record,) = [record for record in home.records() if record.get("ev") == "log_key_changed"]
    assert (record["person"], record["old"], record["new"]) == ("operator", str(old.key), str(new.key))


def signed_by(note: bytes, signer: NoteSigner) -> bool:
    try:
        open_note(note, [signer.key])
    except UnknownSigner:
        return False
    return True


async def test_keys_change_twice_in_a_row_and_on_a_stopped_gateway(home: Home, service: DeployService) -> None:
    configure(home, service)
    async with home.running() as api:
        first, second = await change_key(api), await change_key(api)
        await api.begin("deploy", name="a", wait=10)
    assert second["old_key"] == first["new_key"]
    done = home.within("audit", "rotate-keys", "--trust", str(policy_file(home, TrustPolicy.parse(second["policy"]))))
    assert done.returncode == 0, done.stderr
    policy = TrustPolicy.parse(done.stdout)
    assert len(policy.logs) == 4
    assert [str(key) for key in policy.logs[1:3]] == [first["new_key"], second["new_key"]]
    assert [signer.key.public for signer in private_keys(home)] == [policy.logs[-1].public]
    report = judged(home, policy)
    assert report.exit is Exit.OK, report.to_lines()
    assert (home.data / "keys" / "log.key").stat().st_mode & 0o777 == 0o600
    # Whoever pins another log's key still learns what speaks for this one.
    stranger = TrustPolicy((NoteSigner.generate("elsewhere", SystemChance().bytes).key,))
    done = home.within("audit", "rotate-keys", "--trust", str(policy_file(home, stranger)), "--json")
    assert done.returncode == 0, done.stderr
    assert len(TrustPolicy.parse(json.loads(done.stdout)["policy"]).logs) == 5


async def test_old_checkpoints_and_retention_know_every_key(home: Home, service: DeployService) -> None:
    """A start reads checkpoints of the old key, in the log's folder and at an anchor that was away meanwhile."""
    configure(home, service, keep_days=1.0)
    async with home.running() as api:
        await api.begin("deploy", name="a", wait=10)
    kept = (home.folder / "anchors" / CHECKPOINT).read_bytes()
    assert home.within("audit", "rotate-keys").returncode == 0
    (home.folder / "anchors" / CHECKPOINT).write_bytes(kept)
    async with home.running() as api:
        await api.begin("deploy", name="b", wait=10)
        await change_key(api)
        await handed_over(home, api)
        retention = api.running.office.anchoring.retention
        assert retention is not None
        # It reads the newest checkpoint in each place, and refuses one by a key that it does not know.
        assert await asyncio.to_thread(retention.plan) == 0
        assert not api.running.keeper.ailing()
        keys = list(api.running.office.log_keys.keys)
    assert len(keys) == 3
    assert open_checkpoint((home.folder / "anchors" / CHECKPOINT).read_bytes(), keys).size > 0


async def test_a_key_file_from_before_the_change_is_refused_by_name(home: Home, service: DeployService) -> None:
    configure(home, service)
    path = home.data / "keys" / "log.key"
    before = path.read_bytes()
    assert home.within("audit", "rotate-keys").returncode == 0
    path.write_bytes(before)
    done = home.within("audit", "drain")
    assert (done.returncode, "Put back the folder `keys`" in done.stderr) == (1, True), done.stderr


async def test_only_people_change_keys(home: Home, service: DeployService) -> None:
    configure(home, service)
    async with home.running() as api:
        answer = await api.client.call("POST", "/v1/audit/rotate-keys")
    assert (answer.status, len(private_keys(home)), changes(home)) == (403, 1, [])


async def test_the_auditors_program_writes_nothing_to_a_log_that_a_gateway_keeps(
    home: Home, service: DeployService, tmp_path: Path
) -> None:
    """Entries that the store does not know would make it look restored, and writes would be held."""
    configure(home, service)
    async with home.running() as api:
        await api.begin("deploy", name="a", wait=10)
    keys = ("--seal-key", str(home.data / "keys" / "seal.key"), "--recipient", str(tmp_path / "readers"))
    (tmp_path / "readers").write_text("\n".join(json.loads(home.config.read_text())["audit"]["recipients"]))
    write_key(tmp_path / "personal.key", (home.data / "keys" / "personal.key").read_text().strip())
    log, key, by = str(home.log_folder()), ("--log-key", str(home.data / "keys" / "log.key")), ("--by", "x")
    people = ("--subject", "x", "--personal-key", str(tmp_path / "personal.key"), "--subjects", str(tmp_path / "s"))
    before = {path: path.read_bytes() for path in home.log_folder().rglob("*") if path.is_file()}
    for words in (
        ("rotate-keys", log, *key, *keys, *by),
        ("retain", log, *key, *keys, *by, "--older-than", "1d"),
        ("shred", log, *people, *keys, *by),
        ("recover", log, *keys),
    ):
        done = home.audit_within(*words)
        assert (done.returncode, "written by a gateway" in done.stderr) == (2, True), (words, done)
    assert {path: path.read_bytes() for path in home.log_folder().rglob("*") if path.is_file()} == before


# -- crashes -----------------------------------------------------------------------------------------------------------


class Camera:
    """Keeps a copy of the whole folder at each named place: what a process killed there leaves behind."""

    def __init__(self, home: Home, folder: Path, places: Sequence[str]) -> None:
        self._home, self._folder = home, folder
        self.places = list(places)
        self.taken: list[str] = []

    def hit(self, name: str) -> None:
        if name not in self.places:
            return
        self.places.remove(name)
        self.taken.append(name)
        target = self._folder / name
        # The database first: the files may be ahead of a copy of it only by what it holds as well.
        target.mkdir(parents=True)
        for pattern in ("gateway.yaml", "trust.policy", "*.key", "data/gateway.db*"):
            for path in self._home.folder.glob(pattern):
                (target / path.relative_to(self._home.folder)).parent.mkdir(mode=0o700, exist_ok=True)
                shutil.copy2(path, target / path.relative_to(self._home.folder))
        for name_of in ("data/keys", "data/audit", "anchors", "catalog"):
            shutil.copytree(self._home.folder / name_of, target / name_of)
        shutil.copy2(self._home.data / "vault.key", target / "data" / "vault.key")


CHANGE = (
    "rekey.key_stored",
    "rekey.seal_key_stored",
    store_points.BEGIN,
    store_points.SEALED,
    store_points.WRITTEN,
    store_points.COMMITTED,
    "rekey.committed",
    "export.before_write",
    "export.after_sync",
    "export.before_prune",
    "rekey.settled",
)
AFTER = {"rekey.committed", "rekey.settled"}
EITHER = {name for name in CHANGE if not name.startswith("rekey.")}
"""Another transaction may come by there first; whichever it is, all of the change must be there, or nothing."""


def judged(home: Home, policy: TrustPolicy) -> Report:
    """What `audit verify` would say, without a process for it."""
    now_ms = SystemClock().wall_ms()
    return verify(log_of(home), policy=policy, anchors=[home.folder / "anchors"], now_ms=now_ms, settle=lambda: None)


async def reopened(folder: Path, home: Home) -> Home:
    """The copy, with its own paths, started and ended once more."""
    copy = Home(folder, home.caller_key, home.person_key)
    text = copy.config.read_text().replace(str(home.folder), str(folder))
    copy.config.write_text(text)
    async with copy.running():
        pass
    return copy


async def test_a_crash_anywhere_in_a_change_of_the_log_key_leaves_a_log_that_verifies(
    home: Home, service: DeployService, tmp_path: Path
) -> None:
    configure(home, service, checkpoint_interval_seconds=3600.0)
    camera = Camera(home, tmp_path / "crashed", ())
    async with home.running(points=camera) as api:
        await api.begin("deploy", name="a", wait=10)
        camera.places = list(CHANGE[:1])
        before = str(api.running.office.log_keys.signer.key)
        task = asyncio.ensure_future(change_key(api))
        async with asyncio.timeout(SECONDS):
            while not camera.taken:
                await asyncio.sleep(0)
        camera.places = list(CHANGE[1:])
        made = await task
        await handed_over(home, api)
    assert set(camera.taken) == set(CHANGE)
    for place in camera.taken:
        copy = await reopened(tmp_path / "crashed" / place, home)
        changed = [change for change in changes(copy) if change.what == LOG_KEY]
        found = private_keys(copy)
        policy = TrustPolicy.parse(made["policy"])
        assert place in EITHER or bool(changed) == (place in AFTER), place
        if changed:
            assert (len(changed), [str(signer.key) for signer in found]) == (1, [made["new_key"]]), place
            assert judged(copy, policy).exit is Exit.OK, (place, judged(copy, policy).to_lines())
            sizes = [
                open_checkpoint(note, policy.logs).size
                for note in split_notes((copy.log_folder() / HISTORY).read_bytes())
            ]
            assert made["cut"] in sizes, place
        else:
            assert (changed, str(found[0].key)) == ([], before), place
            assert judged(copy, pinned(copy)).exit is Exit.OK, (place, judged(copy, pinned(copy)).to_lines())
        # It can be done (again), and what was left behind is swept up.
        done = copy.within("audit", "rotate-keys") if place == CHANGE[1] else None
        assert done is None or (done.returncode, len(private_keys(copy))) == (0, 1), done


ANNOUNCED = CHANGE.index("rekey.seal_key_stored")
BEFORE_COMMIT = {*CHANGE[: ANNOUNCED + 1], store_points.BEGIN, store_points.SEALED, store_points.WRITTEN}
AT_ONCE = ("rekey.seal_key_stored", "rekey.committed", "export.after_sync")
"""Nothing is in force yet; the store knows it, the files do not; the files do, too, and the old key has not signed."""


async def killed_in_a_change(home: Home, service: DeployService, place: str) -> None:
    """SIGKILL a serving gateway there; the next start goes on under one key, which can be changed."""
    configure(home, service, checkpoint_interval_seconds=3600.0, seal_interval_seconds=3600.0)
    (old,) = private_keys(home)
    after = () if CHANGE.index(place) <= ANNOUNCED else ("--after", CHANGE[ANNOUNCED])
    async with home.process("kill", place, *after) as api:
        assert (await api.begin("deploy", name="a", key="call-a", wait=10))["outcome"] == "success"
        person = Client(api.client._address, home.person_key)
        try:
            await person.call("POST", "/v1/audit/rotate-keys")
        except (AnswerLost, Unreachable):
            # It died before its answer was out, at most of these places.
            assert await api.ended() == -signal.SIGKILL
        assert await api.ended() == -signal.SIGKILL

    async with home.running() as inside:
        keys = inside.running.office.log_keys
        in_force, known = keys.signer, keys.policy
        assert inside.running.office.quarantine is None
        found = await inside.by_key("call-a")
        assert found is not None
        assert found["outcome"] == "success"
        assert (await inside.begin("deploy", name="b", key="call-b", wait=10))["outcome"] == "success"
        again = await change_key(inside)
        await handed_over(home, inside)

    changed = in_force.key.public != old.key.public
    assert changed is False or place not in BEFORE_COMMIT
    assert changed is True or place not in AFTER
    assert len(known.logs) == 1 + changed
    newest = TrustPolicy.parse(again["policy"])
    assert again["old_key"] == str(in_force.key)
    # What the log says of its keys, what the policy says, and what is left of them on disk are one story.
    digests = [key.digest for key in newest.logs]
    assert [(change.old_digest, change.new_digest) for change in changes(home)] == list(pairwise(digests))
    assert [str(signer.key) for signer in private_keys(home)] == [again["new_key"]]
    report = judged(home, newest)
    assert report.exit is Exit.OK, report.to_lines()
    # Each key signed the last tree that is its own.
    notes = split_notes((home.log_folder() / HISTORY).read_bytes())
    sizes = {open_checkpoint(note, newest.logs).size for note in notes}
    assert {key.until for key in newest.logs[:-1]} <= sizes


@pytest.mark.parametrize("place", AT_ONCE)
async def test_a_gateway_killed_in_a_change_of_its_log_key_goes_on_under_one_key(
    place: str, home: Home, service: DeployService
) -> None:
    await killed_in_a_change(home, service, place)


@pytest.mark.soak
@pytest.mark.parametrize("place", CHANGE)
async def test_a_gateway_killed_anywhere_in_a_change_of_its_log_key_goes_on_under_one_key(
    place: str, home: Home, service: DeployService
) -> None:
    await killed_in_a_change(home, service, place)


# -- readers -----------------------------------------------------------------------------------------------------------


def with_reader(home: Home, reader: RecipientKey) -> list[str]:
    return [str(reader.recipient), json.loads(home.config.read_text())["audit"]["recipients"][1]]


async def test_other_readers_in_the_settings_are_in_the_log_from_the_next_start_on_whatever_happens_at_it(
    home: Home, service: DeployService, tmp_path: Path
) -> None:
    configure(home, service)
    async with home.running() as api:
        await api.begin("deploy", name="a", wait=10)
    newcomer = RecipientKey.generate(Role.AUDITOR, "newcomer", SystemChance().bytes)
    write_key(home.folder / "newcomer.key", newcomer.to_line())
    before = read_open(log_of(home), segments(log_of(home))[-1]).recipients_digest()
    configure(home, service, recipients=with_reader(home, newcomer))
    camera = Camera(home, tmp_path / "crashed", (store_points.SEALED, store_points.COMMITTED, "export.before_write"))
    async with home.running(points=camera) as api:
        await api.begin("deploy", name="b", wait=10)
    async with home.running() as api:
        await api.begin("deploy", name="c", wait=10)

    for folder in (home.folder, *(tmp_path / "crashed" / place for place in camera.taken)):
        copy = await reopened(folder, home)
        log = log_of(copy)
        after = digest_of(
            tuple(
                RecipientKey.parse((copy.folder / f"{name}.key").read_text()).recipient
                for name in ("newcomer", "recovery")
            )
        )
        assert changes(copy) == [KeyChange(RECIPIENTS, before, after, "audit.recipients")], folder
        assert judged(copy, pinned(copy)).exit is Exit.OK, judged(copy, pinned(copy)).to_lines()
        told = [record.content["ev"] for record in show(log, newcomer)]
        assert told[0] == "started"
        with pytest.raises(WrongKey):
            list(show(log, RecipientKey.generate(Role.AUDITOR, "nobody", SystemChance().bytes)))
    assert len(camera.taken) == 3
    old = RecipientKey.parse((home.folder / "auditor.key").read_text())
    names = [json.dumps(record.content) for record in show(log_of(home), old)]
    assert any("admitted" in name for name in names)
    assert len(names) < len(list(show(log_of(home), RecipientKey.parse((home.folder / "recovery.key").read_text()))))
