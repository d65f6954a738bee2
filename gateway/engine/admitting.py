"""What goes on record when an operation is admitted, with a person's data in boxes where the catalog marks them."""

from typing import Final

from gateway.core.events import Fact
from gateway.core.placeholders import render_text
from gateway.engine.journal import Journal
from gateway.engine.live import Live
from gateway.engine.ports import Definitions
from gateway.engine.subjects import Subjects
from gateway.engine.submit import Passage
from gateway.model.operation import Operation
from gateway.model.problem import present
from gateway.store.port import Admission, PayloadKind, Record

PERSONAL: Final = ("url", "run", "trace")
"""Fields of the record into which arguments may get."""


class Admissions:
    """Makes admissions of candidates."""

    def __init__(self, journal: Journal, definitions: Definitions, subjects: Subjects | None) -> None:
        """Without `subjects` no action may mark personal arguments."""
        self._journal = journal
        self._definitions = definitions
        self._subjects = subjects

    async def of(self, passage: Passage, live: Live) -> Admission:
        """The admission of a candidate. Only an action that marks personal arguments waits for anything here.

        Raises Unavailable, StoreUnknown.
        """
        operation, action = live.operation, live.action
        fact = Fact(
            "admitted",
            {
                "key": operation.key,
                "run": operation.run,
                "parent": operation.parent,
                "supersedes": operation.supersedes,
                "fingerprint": operation.fingerprint,
                "request": operation.request_sha256,
                "url": present(passage.rendered, "a candidate was made").url,
                "rule": operation.rule,
                "session": passage.principal.key_id,
                "trace": operation.trace_id,
                **(passage.noted or {}),
            },
        )
        body = self._journal.body(operation, fact.fields)
        mark = None
        if action.subject is not None:
            subjects = present(self._subjects, "who marks personal arguments has keys for people")
            # Equal arguments must be known again by a store that lost them, and guessing must not find them.
            body["fingerprint"] = mark = subjects.mark(operation.fingerprint)
            body["request"] = subjects.mark(operation.request_sha256)
            subject = render_text(action.subject, present(passage.variables, "a candidate was made"))
            body = await subjects.box(body, subject, PERSONAL)
        return Admission(
            operation=operation,
            records=_with_superseded(operation, Record(fact.event, body, operation.id)),
            payloads={
                PayloadKind.REQUEST: passage.payloads["request"],
                PayloadKind.ARGUMENTS: passage.payloads["arguments"],
            },
            definition=self._definitions.definition(action),
            repeat_window_ms=int(action.repeat_window_seconds * 1000),
            is_read=action.is_read,
            mark=mark,
        )


def _with_superseded(operation: Operation, admitted: Record) -> tuple[Record, ...]:
    if operation.supersedes is None:
        return (admitted,)
    body = {"at": operation.created_ms, "by": operation.id, "person": operation.caller}
    return Record("superseded", body, operation.supersedes), admitted
