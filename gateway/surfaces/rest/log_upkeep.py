"""What people ask of the audit log over REST: to erase what it holds of somebody, and to sign with a new key."""

from pydantic import Field

from gateway.surfaces.documents import Document
from gateway.surfaces.rest.administration import administered
from gateway.surfaces.rest.call import Call, Reply
from gateway.surfaces.wire import key_change_document

SUBJECT_CHARACTERS_MAX = 1024


class ShredRequest(Document):
    """The body of `POST /v1/subjects/shred`; in a body, so that no name gets into anybody's log of addresses."""

    subject: str = Field(
        min_length=1,
        max_length=SUBJECT_CHARACTERS_MAX,
        description="The person, written as the action's `subject` was when their data was recorded.",
    )
    decided_by: str | None = Field(
        default=None,
        pattern=r"^[ -~]{1,100}$",
        description="Who decided it, if not whoever asks; the log then names both.",
    )


class ShredReport(Document):
    """What was erased: under these tags the log names it. Empty: there is no key of that person, or none any more."""

    erased: list[str]


class KeyChangeDocument(Document):
    """A new key of the audit log, and the policy that auditors need from now on."""

    origin: str
    cut: int = Field(description="Entries under the old key; from that seq on the new one speaks for the log.")
    old_key: str
    new_key: str
    policy: str = Field(description="Every key of this log, each with its part of it, as a trust policy.")


@administered
async def shred_subject(call: Call) -> Reply:
    """`POST /v1/subjects/shred`. Asked again, it erases nothing and says so."""
    body = await call.body(ShredRequest)
    by = call.who.name if body.decided_by is None else f"{body.decided_by}, asked by {call.who.name}"
    tags = await call.ports.subjects.shred(body.subject, by=by)
    return Reply(200, {"erased": [tag.hex() for tag in tags]})


@administered
async def change_log_key(call: Call) -> Reply:
    """`POST /v1/audit/rotate-keys`."""
    keys = call.ports.log_keys
    rotated = await keys.rotate(by=call.who.name)
    return Reply(200, key_change_document(rotated, keys.policy))
