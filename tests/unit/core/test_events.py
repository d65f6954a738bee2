"""Events are facts: frozen, comparable, and each with a handler of its own."""

from dataclasses import FrozenInstanceError
from typing import get_args

import pytest

from gateway.core import lifecycle
from gateway.core.events import Begin, Event, Restarted, Sighting
from gateway.model.evidence import Finding


def test_every_event_has_its_handler_and_every_handler_its_event() -> None:
    assert set(lifecycle._HANDLERS) == set(get_args(Event))


def test_an_event_is_a_value() -> None:
    assert Begin(20.0) == Begin(20.0)
    with pytest.raises(FrozenInstanceError):
        Begin(20.0).lease_seconds = 30.0  # type: ignore[misc]  # refused at run time as well


def test_a_sighting_claims_nothing_by_default() -> None:
    sighting = Sighting(Finding.INCONCLUSIVE, "503")

    assert (sighting.executed, sighting.wait_seconds, sighting.contradiction) == (None, None, False)


def test_a_restart_means_the_only_owner_unless_it_says_otherwise() -> None:
    assert Restarted().sole_owner
