"""The three questions that the owner of every write must answer."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gateway.catalog.finding import Declared, Finding
from gateway.model.action import Action, BindPlace, Effect, Fence, Marker, ReplayAfter5xx, Resend, Settle


@dataclass(frozen=True, slots=True)
class Answered:
    """A question, whether the definition answers it, and the answer or what to declare."""

    question: str
    answered: bool
    sentence: str


def question_rules(subject: Declared) -> Iterator[Finding]:
    """An irreversible action that answers none of them is refused; each other gap is a warning."""
    action = subject.action
    if action.is_read:
        return
    missing = [answer for answer in questions(action) if not answer.answered]
    if action.unknown_accepted is not None and (action.effect is not Effect.IRREVERSIBLE or len(missing) < 3):
        hint = "Remove it: it is for irreversible actions without any of the three answers."
        yield Finding(("unknown_accepted",), "“unknown_accepted” is not needed here.", hint, warning=True)
    elif len(missing) == 3 and action.effect is Effect.IRREVERSIBLE and action.unknown_accepted is None:
        hint = "Declare “bind” or “reconcile”; or “unknown_accepted: true” with a “reason”."
        yield Finding((), "An outcome of this irreversible action that is lost could never be known.", hint)
    elif action.unknown_accepted is None:
        for answer in missing:
            yield Finding((), f"Unanswered: {answer.question}", answer.sentence, warning=True)


def questions(action: Action) -> Sequence[Answered]:
    """What binds repeats, where the outcome is looked up, and what remains when the connection breaks."""
    if action.marker is not None:
        return _of_a_command(action)
    bound = action.bind.place is not BindPlace.NONE
    looks = action.reconcile is not None
    absence = action.reconcile.absence if action.reconcile else None
    repeats = action.resend is Resend.SAME_KEY and bound and action.replay_after_5xx is ReplayAfter5xx.SAME_OUTCOME
    return (
        Answered(
            "What binds repeats to one operation?",
            bound,
            f"The operation's id in the {action.bind.place.value}." if bound else "Nothing; declare “bind”.",
        ),
        Answered(
            "Where can the outcome be looked up?",
            looks,
            f"{action.reconcile.request.method} {action.reconcile.request.path}"
            if action.reconcile
            else "Nowhere; declare “reconcile”.",
        ),
        Answered(
            "What evidence remains when the connection breaks?",
            absence is not None or repeats,
            _remains(absence, repeats=repeats),
        ),
    )


def _of_a_command(action: Action) -> Sequence[Answered]:
    by_runner, looks = action.marker is Marker.RUNNER, action.reconcile is not None
    fenced = action.reconcile is not None and isinstance(action.reconcile.absence, Fence)
    return (
        Answered(
            "What binds repeats to one operation?",
            by_runner,
            f"The runner on the host, which runs each {'step' if action.steps else 'attempt'} at most once."
            if by_runner
            else "Nothing.",
        ),
        Answered(
            "Where can the outcome be looked up?",
            looks,
            "On the host itself." if looks else "Nowhere; say “marker: runner”.",
        ),
        Answered(
            "What evidence remains when the connection breaks?",
            fenced,
            "A fence decides whether the command can still run."
            if fenced
            else "Absence is never conclusive; let the runner keep the record, and add a rule that finds absence.",
        ),
    )


def _remains(absence: Settle | Fence | None, *, repeats: bool) -> str:
    if isinstance(absence, Fence):
        return "A fence decides whether the operation can still happen."
    if isinstance(absence, Settle):
        return "Absence counts once the settle time has passed."
    if repeats:
        return "The same request under the same key gives the same outcome again."
    return "Absence is never conclusive and no repeat is safe; declare “reconcile.absence” or “resend: same_key”."
