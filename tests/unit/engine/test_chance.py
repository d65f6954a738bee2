"""Randomness and ids."""

import pytest

from gateway.core.ids import parse_id
from gateway.engine.chance import PIECES, Ids, SystemChance, uuid7
from tests.unit.engine.keeping import CountedChance, HandClock


@pytest.mark.parametrize("count", [1, 10, 12, 16, 17, 32, 64])
def test_bytes_are_as_many_as_asked(count: int) -> None:
    assert len(SystemChance().bytes(count)) == count


@pytest.mark.parametrize("count", [10, 12, 16, 32])
def test_no_piece_is_given_out_twice_over_several_draws_from_the_kernel(count: int) -> None:
    chance = SystemChance()

    assert len({chance.bytes(count) for _ in range(3 * PIECES)}) == 3 * PIECES


def test_two_sources_share_nothing() -> None:
    one, two = SystemChance(), SystemChance()

    assert {one.bytes(16) for _ in range(10)}.isdisjoint({two.bytes(16) for _ in range(10)})
    assert all(0 <= one.jitter() < 1 for _ in range(100))


def test_ids_sort_by_time_and_are_uuids_of_version_7() -> None:
    clock = HandClock()
    ids = Ids(clock, CountedChance())
    made = []
    for _ in range(5):
        made.append(ids.operation_id())
        clock.now_ms += 1

    assert made == sorted(made)
    raw = parse_id(made[0])
    assert int.from_bytes(raw[:6], "big") == 1_700_000_000_000
    assert (raw[6] >> 4, raw[8] >> 6) == (7, 2)
    assert len(set(made)) == 5


def test_a_uuid_keeps_all_noise_but_version_and_variant() -> None:
    assert uuid7(1, b"\xff" * 10) == bytes(5) + b"\x01" + b"\x7f\xff\xbf" + b"\xff" * 7
    assert uuid7(1, bytes(10)) == bytes(5) + b"\x01" + b"\x70\x00\x80" + bytes(7)


def test_a_token_is_sixteen_bytes_in_hex() -> None:
    ids = Ids(HandClock(), CountedChance())

    assert len(bytes.fromhex(ids.token())) == 16
    assert ids.token() != ids.token()
