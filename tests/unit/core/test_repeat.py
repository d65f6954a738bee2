"""The only permission to send again: each rule granted once, and refused once for each of its conditions."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.core.repeat import age_seconds, may_repeat, same_key_refusal
from gateway.model.action import Action, Bind, BindPlace, ReplayAfter5xx, Resend
from gateway.model.operation import Attempt, Kind, Now, Operation, Standing, State
from tests.unit.core.builders import BOOT0, FENCED, SAME_KEY, SETTLE, T0, action, now, operation, read

ON_ABSENCE: dict[str, Any] = {"resend": Resend.ON_ABSENCE, "reconcile": SETTLE}
LIMITED = 429


def tried(*standings: Standing | tuple[Standing, int], fence: Standing | None = None, **changes: Any) -> Operation:
    """An operation whose attempts stand like this, begun at the start of the clock; last of all a fence."""
    attempts = []
    for number, given in enumerate(standings, 1):
        standing, status = given if isinstance(given, tuple) else (given, None)
        attempts.append(Attempt(number, Kind.SEND, number, T0, BOOT0, "boot-1", standing, T0, status=status))
    if fence is not None:
        attempts.append(Attempt(len(attempts) + 1, Kind.FENCE, 9, T0, BOOT0, "boot-1", fence, T0))
    begun: dict[str, Any] = {
        "state": State.IN_DOUBT,
        "attempts": tuple(attempts),
        "begun_ms": T0,
        "begun_boot_ms": BOOT0,
        "begun_boot_id": "boot-1",
        "recovery_ms": T0 + 300_000,
    }
    return operation(**begun | changes)


DOUBT, UNSENT, ABSENT, REFUSED = Standing.DOUBT, Standing.UNSENT, Standing.ABSENT, Standing.REFUSED
LATE = now(300)
USED_UP = "a fence has used up the operation's id"
OCCUPIED = "a fence may have used up the operation's id"
NEVER = action()


@pytest.mark.parametrize(
    ("rules", "live", "rule"),
    [
        (NEVER, tried(UNSENT), "a"),
        (NEVER, tried(UNSENT, UNSENT), "a"),
        (action(**ON_ABSENCE), tried((UNSENT, LIMITED)), "a"),
        (action(**SAME_KEY), tried((UNSENT, LIMITED)), "a"),
        (action(**ON_ABSENCE), tried(ABSENT, UNSENT), "a"),
        (read(), tried(DOUBT), "b"),
        (read(), tried((UNSENT, LIMITED)), "b"),
        (read(), tried(UNSENT), "a"),
        (action(**SAME_KEY), tried(DOUBT), "c"),
        (action(**SAME_KEY), tried(DOUBT, UNSENT), "c"),
        (action(**SAME_KEY), tried(DOUBT, (UNSENT, LIMITED)), "c"),
        (action(**ON_ABSENCE), tried(ABSENT), "d"),
        (action(**ON_ABSENCE), tried(ABSENT, ABSENT), "d"),
        (
            action(resend=Resend.SAME_KEY, **{k: v for k, v in SAME_KEY.items() if k != "resend"}),
            tried(Standing.OPEN),
            "c",
        ),
    ],
)
def test_each_rule_grants(rules: Action, live: Operation, rule: str) -> None:
    permission = may_repeat(rules, live, now(1))

    assert (permission.allowed, permission.rule) == (True, rule)


@pytest.mark.parametrize(
    ("rules", "live", "moment", "reason"),
    [
        # what holds for every rule
        (NEVER, tried(UNSENT, UNSENT, UNSENT), now(1), "all 3 attempts are used"),
        (read(), tried(DOUBT, DOUBT, DOUBT), now(1), "all 3 attempts are used"),
        (NEVER, tried(UNSENT), LATE, "the recovery deadline has passed"),
        (read(), tried(DOUBT), LATE, "the recovery deadline has passed"),
        (action(**SAME_KEY), tried(DOUBT), LATE, "the recovery deadline has passed"),
        (action(**ON_ABSENCE), tried(ABSENT), LATE, "the recovery deadline has passed"),
        (action(**SAME_KEY), tried(DOUBT, contradicted=True), now(1), "the evidence contradicts itself"),
        # a
        (NEVER, tried((UNSENT, LIMITED)), now(1), "the action declares `resend: never`"),
        (NEVER, tried(REFUSED), now(1), "an attempt was answered"),
        (NEVER, tried(REFUSED, UNSENT), now(1), "an attempt was answered"),
        (NEVER, tried(DOUBT, UNSENT), now(1), "an earlier attempt may have been carried out"),
        (action(**ON_ABSENCE), tried(DOUBT, (UNSENT, LIMITED)), now(1), "an earlier attempt may have been carried out"),
        (NEVER, tried(Standing.SETTLED, UNSENT), now(1), "an attempt was answered"),
        # b
        (read(), tried(REFUSED), now(1), "an attempt was answered"),
        # d
        (NEVER, tried(ABSENT), now(1), "the action does not declare `resend: on_absence`"),
        (action(**SAME_KEY), tried(ABSENT), now(1), "the action does not declare `resend: on_absence`"),
        (action(**ON_ABSENCE), tried(DOUBT), now(1), "an earlier attempt may have been carried out"),
        (action(**ON_ABSENCE), tried(ABSENT, DOUBT), now(1), "an earlier attempt may have been carried out"),
        (action(resend=Resend.ON_ABSENCE, reconcile=FENCED), tried(ABSENT), now(1), USED_UP),
        # our own fence may answer in place of the effect
        (action(**SAME_KEY), tried(DOUBT, fence=DOUBT), now(1), OCCUPIED),
        (action(**SAME_KEY), tried(DOUBT, fence=Standing.OPEN), now(1), OCCUPIED),
        (action(**SAME_KEY), tried(UNSENT, fence=Standing.SETTLED), now(1), OCCUPIED),
    ],
)  # fmt: skip
def test_each_broken_condition_refuses(rules: Action, live: Operation, moment: Now, reason: str) -> None:
    permission = may_repeat(rules, live, moment)

    assert (permission.allowed, permission.rule, permission.reason) == (False, None, reason)


def test_a_fence_that_never_left_stands_in_nobodys_way() -> None:
    assert may_repeat(action(**SAME_KEY), tried(DOUBT, fence=UNSENT), now(1)).rule == "c"


# --- the same key ---------------------------------------------------------------------------------------------------

BIND = SAME_KEY["bind"]
SHORT = replace(BIND, window_min_seconds=100.0, window_margin_seconds=20.0)
"""Window 100 s, margin 20 s, and an attempt that takes up to 15 s: usable for a first attempt younger than 65 s."""


def bound(**changes: Any) -> Action:
    return action(**SAME_KEY | {"bind": SHORT} | changes)


ENDS = "the service's memory of our value may end before this attempt does"
UNDECLARED = "the action declares no value and window by which the service deduplicates"
REPLAY = "the service is not known to replay the same outcome after a 5xx"
STEPPED = "the clock stepped back, so the age of the first attempt is not known"


@pytest.mark.parametrize(
    ("rules", "moment", "refusal"),
    [
        (bound(), now(0), None),
        (bound(), now(64.9), None),
        (bound(), now(65), ENDS),
        (bound(), now(1000), ENDS),
        # the larger of wall and boot time
        (bound(), replace(now(1), boot_ms=BOOT0 + 65_000), ENDS),
        (bound(), replace(now(1), wall_ms=T0 + 65_000), ENDS),
        # after a reboot only the wall clock is left
        (bound(), now(1, boot_id="boot-2", boot_ms=99_000_000), None),
        (bound(), now(65, boot_id="boot-2", boot_ms=1), ENDS),
        # a wall clock behind what was stored says nothing about age
        (bound(), replace(now(1), wall_ms=T0 - 1), STEPPED),
        # what must be declared
        (bound(bind=Bind(BindPlace.NONE, window_min_seconds=100.0)), now(1), UNDECLARED),
        (bound(bind=replace(SHORT, window_min_seconds=None)), now(1), UNDECLARED),
        (bound(replay_after_5xx=ReplayAfter5xx.UNKNOWN), now(1), REPLAY),
        (bound(replay_after_5xx=ReplayAfter5xx.REEXECUTES), now(1), REPLAY),
    ],
)
def test_the_services_memory_of_our_value(rules: Action, moment: Now, refusal: str | None) -> None:
    live = tried(DOUBT)

    assert same_key_refusal(rules, live, moment) == refusal
    assert may_repeat(rules, live, moment).allowed is (refusal is None)


def test_a_clock_that_stepped_back_behind_a_later_attempt_closes_the_path() -> None:
    live = tried(DOUBT, DOUBT)
    late = replace(live.attempts[1], ended_ms=T0 + 40_000)

    stepped = replace(live, attempts=(live.attempts[0], late))

    assert same_key_refusal(bound(), stepped, now(30)) == STEPPED
    assert same_key_refusal(bound(), stepped, now(40)) is None


def test_the_age_counts_from_the_first_begin_whatever_came_of_it() -> None:
    assert age_seconds(tried(UNSENT, DOUBT), now(12.5)) == 12.5
    assert age_seconds(operation(), now(12.5)) == 0.0
