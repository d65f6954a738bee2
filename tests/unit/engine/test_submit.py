"""The steps of a submission: each refuses before the next, and what comes through is fixed to the byte."""

from hashlib import sha256

import pytest

from gateway.core.identity import Ruling, Verdict
from gateway.engine.revive import pack_request, unpack_request
from gateway.engine.submit import Request, gone, is_known, refusal
from gateway.model.principal import Principal
from gateway.model.problem import Code, Problem
from gateway.store.port import PayloadKind
from tests.unit.core.builders import operation
from tests.unit.engine.workshop import CALLER, DONE, OTHER, PERSON, Workshop

GOOD = {"name": "a"}


@pytest.mark.parametrize(
    ("submission", "who", "code", "pointers"),
    [
        (Request("make", GOOD, key="a b"), CALLER, Code.INVALID_KEY, []),
        (Request("make", GOOD, key=""), CALLER, Code.INVALID_KEY, []),
        (Request("make", GOOD, key="k" * 256), CALLER, Code.INVALID_KEY, []),
        (Request("make", GOOD, run="a b"), CALLER, Code.INVALID_INPUT, []),
        (Request("make", GOOD, run=""), CALLER, Code.INVALID_INPUT, []),
        (Request("make", GOOD, run="a" * 256), CALLER, Code.INVALID_INPUT, []),
        (Request("make", GOOD), PERSON, Code.FORBIDDEN, []),
        (Request("make", GOOD, supersedes="op_1"), CALLER, Code.FORBIDDEN, []),
        (Request("nothing", GOOD), CALLER, Code.UNKNOWN_ACTION, []),
        (Request("make", ["a"]), CALLER, Code.INVALID_INPUT, []),
        (Request("make", None), CALLER, Code.INVALID_INPUT, []),
        (Request("make", {"name": "z"}), CALLER, Code.FORBIDDEN, []),
        (Request("make", {"name": 1}), CALLER, Code.INVALID_INPUT, ["/args/name"]),
        (Request("make", GOOD | {"nmae": 1}), CALLER, Code.INVALID_INPUT, ["/args"]),
        (Request("read", {"name": ".."}), CALLER, Code.INVALID_INPUT, ["/args/name"]),
        (Request("read", {"name": "a/b"}), CALLER, Code.INVALID_INPUT, ["/args/name"]),
    ],
)
async def test_each_step_refuses_with_its_own_code_and_nothing_exists(
    submission: Request, who: Principal, code: Code, pointers: list[str], shop: Workshop
) -> None:
    with pytest.raises(Problem) as problem:
        await shop.assembly.gateway.submit(who, submission)

    assert problem.value.code is code
    assert [error.pointer for error in problem.value.errors] == pointers
    assert await shop.events() == []
    assert shop.outside.exchanges == []
    assert len(shop.assembly.recovery) == 0


async def test_what_the_access_rules_hide_is_refused_before_anybody_says_what_is_wrong_with_it(shop: Workshop) -> None:
    with pytest.raises(Problem) as problem:
        await shop.assembly.gateway.submit(CALLER, Request("make", {"name": "z", "more": 1}))

    assert (problem.value.code, problem.value.errors) == (Code.FORBIDDEN, ())


async def test_what_is_stored_is_what_is_sent(shop: Workshop) -> None:
    shop.outside.writes.append(DONE)
    made = await shop.show(await shop.submit(key="k", run="r", correlation_id="c", trace_id="t"))
    stored = await shop.store.payload(made.id, PayloadKind.REQUEST)
    assert stored is not None

    request, sent = unpack_request(stored), shop.outside.exchanges[0]
    assert (request.method, request.url) == (sent.method, sent.url)
    assert (request.headers, request.body) == (sent.headers, sent.body)
    assert ("Idempotency-Key", made.id) in sent.headers
    assert made.request_sha256 == sha256(pack_request(request)).hexdigest()
    assert await shop.store.payload(made.id, PayloadKind.ARGUMENTS) == b'{"name":"a"}'


async def test_a_candidate_carries_who_what_and_until_when(shop: Workshop) -> None:
    shop.outside.writes.append(DONE)
    made = await shop.show(await shop.submit(key="k", run="r", correlation_id="c", trace_id="t"))

    assert (made.caller, made.owner, made.action, made.rule) == ("agent-a", "ann", "make", "all")
    assert (made.key, made.run, made.correlation_id, made.trace_id) == ("k", "r", "c", "t")
    assert made.start_by_ms - made.created_ms > 0
    assert made.effect == "irreversible"


async def test_the_conflict_key_is_filled_from_the_arguments(shop: Workshop) -> None:
    passage = await shop.assembly.gateway._submissions.run(CALLER, Request("make.state", GOOD))

    assert passage.operation is not None
    # Its digest: the key is only compared, and may name a person.
    assert passage.operation.conflict_key == sha256(b"thing:a").hexdigest()


async def test_fingerprints_tell_callers_actions_and_arguments_apart_and_nothing_else(shop: Workshop) -> None:
    async def of(who: Principal, request: Request) -> str:
        passage = await shop.assembly.gateway._submissions.run(who, request)
        assert passage.operation is not None
        return passage.operation.fingerprint

    first = await of(CALLER, Request("make", GOOD, key="k", run="r"))
    assert first == await of(CALLER, Request("make", dict(GOOD), trace_id="t"))
    others = [
        await of(OTHER, Request("make", GOOD)),
        await of(CALLER, Request("make.blind", GOOD)),
        await of(CALLER, Request("make", {"name": "b"})),
    ]
    assert len({first, *others}) == 4


def test_steps_stand_in_the_order_that_the_module_promises(shop: Workshop) -> None:
    steps = [step.__name__ for step in shop.assembly.gateway._submissions.steps]

    assert steps == ["_context", "_safety", "_look_up", "_access", "_input", "_candidate"]


@pytest.mark.parametrize("code", [Code.KEY_REUSED, Code.WRONG_STATE, Code.PROBABLE_REPEAT, Code.PREDECESSOR_UNSETTLED])
def test_refusals_name_an_earlier_operation_to_whoever_may_see_it_only(code: Code) -> None:
    verdict = Verdict(Ruling.REFUSE, code, operation(id="op_1", caller="agent-a"))

    assert refusal(CALLER, verdict).operation_id == "op_1"
    assert refusal(PERSON, verdict).operation_id == "op_1"
    assert refusal(OTHER, verdict).operation_id is None
    assert refusal(CALLER, verdict).code is code
    assert refusal(CALLER, verdict).guidance


def test_each_refusal_says_something_of_its_own() -> None:
    codes = [Code.KEY_REUSED, Code.WRONG_STATE, Code.PROBABLE_REPEAT, Code.PREDECESSOR_UNSETTLED]
    told = {refusal(CALLER, Verdict(Ruling.REFUSE, code)).detail for code in codes}
    only_names = {gone(Verdict(Ruling.REFUSE, code, expired_id="op_1")).detail for code in codes[1:]}

    assert len(told) == 4
    assert len(only_names) == 3


def test_of_an_expired_operation_only_the_name_is_told() -> None:
    problem = gone(Verdict(Ruling.REFUSE, None, expired_id="op_1"))

    assert (problem.code, problem.operation_id) == (Code.KEY_REUSED, "op_1")


def test_joined_and_replayed_are_known_and_nothing_else_is() -> None:
    assert {ruling for ruling in Ruling if is_known(Verdict(ruling))} == {Ruling.JOIN, Ruling.REPLAY}
