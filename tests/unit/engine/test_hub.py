"""Who is told of a change: whoever waits for that operation, subscribers it concerns, and nobody else."""

import pytest

from gateway.engine.hub import BACKLOG_MAX, Hub
from gateway.model.operation import State
from tests.unit.core.builders import operation

ONE = operation(id="op_1", caller="agent-a")


def test_watchers_of_an_operation_are_woken_by_its_changes_only() -> None:
    hub = Hub()
    with hub.watch("op_1") as one, hub.watch("op_1") as also, hub.watch("op_2") as other:
        hub.changed(ONE)

        assert (one.is_set(), also.is_set(), other.is_set()) == (True, True, False)


def test_a_watcher_is_woken_once_by_each_change_and_not_after_it_has_gone() -> None:
    hub = Hub()
    with hub.watch("op_1") as one, hub.watch("op_1") as also:
        hub.changed(ONE)
        one.clear()
        assert not one.is_set()
        hub.changed(ONE)
        assert one.is_set()
    one.clear()
    also.clear()
    hub.changed(ONE)

    assert not one.is_set()
    assert not also.is_set()


def test_of_those_who_have_gone_nothing_is_kept() -> None:
    hub = Hub()
    for number in range(3):
        with hub.watch(f"op_{number}"), hub.watch(f"op_{number}"):
            pass
        with pytest.raises(KeyError), hub.watch(f"op_{number}"), hub.subscribe(None):
            raise KeyError

    assert hub._waiting == {}
    assert hub._subscriptions == set()


def test_one_who_goes_leaves_the_others_their_place() -> None:
    hub = Hub()
    with hub.watch("op_1") as stays:
        with hub.watch("op_1"):
            pass
        hub.changed(ONE)

        assert stays.is_set()


def test_closing_wakes_everybody_for_good() -> None:
    hub = Hub()
    with hub.watch("op_1") as one, hub.watch("op_2") as two:
        assert not hub.closed
        hub.close()

        assert (one.is_set(), two.is_set(), hub.closed) == (True, True, True)


def test_a_caller_hears_of_its_own_and_people_of_everything() -> None:
    hub = Hub()
    with hub.subscribe("agent-a") as mine, hub.subscribe(None) as all_of_them:
        hub.changed(ONE)
        hub.changed(operation(id="op_2", caller="agent-b"))
        hub.alert("disk", None, "full")
        hub.alert("unresolved", ONE, "look")

        assert [notice.data["operation_id"] for notice in mine.queue] == ["op_1"]
        assert [notice.kind for notice in all_of_them.queue] == ["operation", "operation", "alert", "alert"]
        assert [notice.number for notice in all_of_them.queue] == [1, 2, 3, 4]
        assert all_of_them.queue[-1].data["caller"] == "agent-a"
        assert mine.ready.is_set()


def test_a_notice_says_which_image_it_is_about_and_nothing_of_its_content() -> None:
    hub = Hub()
    with hub.subscribe(None) as stream:
        hub.changed(ONE.but(state=State.ACCEPTED, version=4))

        assert stream.queue[0].data == {"operation_id": "op_1", "state": "accepted", "version": 4}


def test_after_the_end_of_a_subscription_nothing_more_is_put_into_it() -> None:
    hub = Hub()
    with hub.subscribe(None) as stream:
        pass
    hub.alert("later", None, "x")

    assert not stream.queue


def test_a_reader_that_falls_behind_is_told_and_goes_on_with_the_newest() -> None:
    hub = Hub()
    with hub.subscribe(None) as slow, hub.subscribe("agent-a") as quick:
        for number in range(BACKLOG_MAX):
            hub.alert(str(number), None, "x")
        assert (slow.lagged, len(slow.queue)) == (False, BACKLOG_MAX)
        hub.alert("one too many", None, "x")

        assert slow.lagged
        assert [notice.data["alert"] for notice in slow.queue] == ["one too many"]
        assert not quick.lagged
