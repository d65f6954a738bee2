"""The form of requests, and of the look-up that settles an operation in doubt."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from gateway.catalog.schema_answers import Form, PredicateForm, RuleForm, Test
from gateway.catalog.values import Duration, Word
from gateway.core.strictjson import Json


class RequestForm(Form):
    """A request. `{name}` stands for an argument or a variable of the gateway."""

    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
    path: Word
    """Appended to the path of the service's `base_url`; starts with `/`."""
    query: dict[str, Json] = Field(default_factory=dict)
    """Query parameters; a list repeats the parameter, an absent optional argument drops it."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Request headers; an absent optional argument drops the header."""
    body: Json = None
    """JSON body; an absent optional argument drops its member."""
    opaque: list[Word] = Field(default_factory=list)
    """Placeholders of the path whose value may hold `/`, `\\` and `%`; sent percent-encoded as one segment."""


class IdentifyForm(Form):
    """The proof that what a look-up found is our operation."""

    path: Word
    """JMESPath to the value that the service keeps."""
    equals: Word
    """What it must equal, for example `{operation_id}`."""


class SettleForm(Form):
    settle: Duration
    """Longest time for which a sent request can be held up, be worked on, and stay invisible to the look-up."""


class FenceRequestForm(Form):
    """Occupies the operation's place, so that a late copy of it loses."""

    request: RequestForm
    won: Test
    """The place is ours now: the operation never ran and never will."""
    lost: Test
    """Somebody was there first: look again."""


class FenceForm(Form):
    fence: FenceRequestForm


def _kind_of_identify(value: Json) -> str:
    """Which form was meant, so that a mistake is told about that one only."""
    return "Word" if isinstance(value, str) else "Object"


def _kind_of_absence(value: Json) -> str:
    if isinstance(value, str):
        return "Word"
    is_fence = isinstance(value, FenceForm) or (isinstance(value, dict) and "fence" in value)
    return "Fence" if is_fence else "Settle"


Identification = Annotated[
    Annotated[IdentifyForm, Tag("Object")] | Annotated[Literal["state"], Tag("Word")], Discriminator(_kind_of_identify)
]
Absence = Annotated[
    Annotated[SettleForm, Tag("Settle")] | Annotated[FenceForm, Tag("Fence")] | Annotated[Literal["none"], Tag("Word")],
    Discriminator(_kind_of_absence),
]


class ControlForm(PredicateForm):
    """Something that must be visible, so that "not there" is not "cannot see"."""

    request: RequestForm


class ReconcileForm(Form):
    """The service's own answer to "did it happen?"."""

    request: RequestForm
    identify: Identification | None = None
    """How the finding is known to be about our operation; `state` if only the state of the world can be seen."""
    rules: Annotated[list[RuleForm], Field(min_length=1)]
    compare: dict[str, Json] = Field(default_factory=dict)
    """JMESPath to what it must equal: what was found against what was asked for."""
    positive_control: ControlForm | None = None
    absence: Absence = "none"
    """How "not there now" becomes "never happened". Default: it does not."""
    result: Word | None = None
    """JMESPath of the result within the answer."""
    interval: Duration = "1s"
    """Shortest time between two looks."""
    watch: Duration = "7d"
    """How long an unresolved operation is still looked after."""
