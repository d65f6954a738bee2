"""Seal keys at a start, and what a log says of the one that it follows."""

from dataclasses import replace

from audit.bodies import Succession
from audit.epochs import SealKeyFile
from audit.head import Head
from audit.keyring import SealKey
from audit.memory import MemoryDirectory
from audit.note import NoteSigner
from gateway.engine.log_start import end_of, say_loss, seal_keys
from tests.unit.audit.logs import ORIGIN, Journal, entropy

SIGNER = NoteSigner.generate(ORIGIN, entropy("signer"))


def kept() -> SealKeyFile:
    return SealKeyFile(MemoryDirectory(), "seal.key")


def issued(epoch: int, seed: str) -> SealKey:
    return SealKey.issue(SIGNER.signer, ORIGIN, entropy(seed), epoch)


def head_of(key: SealKey) -> Head:
    return replace(Journal().sealer.head, epoch=key.epoch, epoch_key=key.public)


def test_a_new_log_gets_a_first_key_and_nothing_was_lost() -> None:
    store = kept()
    epochs, lost = seal_keys(store, SIGNER, None, entropy("new"))

    assert not lost
    (key,) = store.load(ORIGIN)
    assert (key.epoch, key.certified, epochs.resolve(Head.empty(ORIGIN))) == (0, True, key)


def test_the_key_in_force_stays() -> None:
    store, key = kept(), issued(4, "there")
    store.save(ORIGIN, [key])

    assert seal_keys(store, SIGNER, head_of(key), entropy("x"))[1] is False
    assert store.load(ORIGIN) == (key,)


def test_a_key_file_out_of_a_backup_is_replaced_by_one_of_the_next_epoch() -> None:
    for old in ((), (issued(2, "old"),), (issued(5, "another of the same epoch"),)):
        store, gone = kept(), issued(5, "gone")
        store.save(ORIGIN, old)
        epochs, lost = seal_keys(store, SIGNER, head_of(gone), entropy("fresh"))

        assert lost
        (key,) = store.load(ORIGIN)
        assert (key.epoch, key.certified) == (6, True)
        assert epochs.resolve(head_of(gone)) == key


def test_keys_of_other_logs_are_left_alone() -> None:
    store = kept()
    other = SealKey.issue(SIGNER.signer, "gw.example/other", entropy("other"))
    store.save("gw.example/other", [other])
    seal_keys(store, SIGNER, None, entropy("new"))

    assert store.load("gw.example/other") == (other,)


def test_the_longest_known_head_is_stated_and_an_empty_log_is_no_loss() -> None:
    journal = Journal()
    short = journal.sealer.head
    journal.records(3)
    long = journal.sealer.head

    said = (Succession(ORIGIN, long.size, long.root(), long.leaf),)
    assert say_loss(short, long) == say_loss(long, None) == say_loss(None, long) == said
    assert say_loss(None, Head.empty(ORIGIN)) == say_loss() == ()


def test_damaged_files_of_an_earlier_log_say_nothing_of_its_end() -> None:
    journal = Journal()
    end = journal.sealer.head
    journal.export()

    assert end_of(journal.directory, ORIGIN) == end
    assert end_of(journal.directory, "gw.example/other") is None
    assert end_of(MemoryDirectory(), ORIGIN) == Head.empty(ORIGIN)
