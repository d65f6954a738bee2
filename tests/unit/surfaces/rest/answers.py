"""What the answers of the REST door must be, whatever they say."""

from fixtures.service.server import DeployService
from gateway.surfaces.documents import OperationDocument, ProblemDocument
from tests.unit.surfaces.door import Answer, Door

MISSING = "op_01jd3v6k8n5q7r9s2t4w6x8y0z"


def refused(answer: Answer, status: int, code: str) -> ProblemDocument:
    """The problem, checked against its documented model."""
    assert (answer.status, answer.document.get("code")) == (status, code), answer.document
    assert answer.headers["Content-Type"] == "application/problem+json"
    found = ProblemDocument.model_validate(answer.document, strict=True)
    assert found.status == status
    assert found.guidance
    assert ("Retry-After" in answer.headers) or not found.retryable
    assert answer.headers.get("x-should-retry") == (None if found.retryable else "false")
    return found


def document(answer: Answer, status: int = 200) -> OperationDocument:
    """The operation, checked against its documented model."""
    assert answer.status == status, answer.document
    return OperationDocument.model_validate(answer.document, strict=True)


async def doubtful(door: Door, service: DeployService, action: str = "deploy.blind", **more: str) -> str:
    """An operation whose answer was lost, without any look-up; soon unresolved."""
    service.faults.add("commit_then_drop")
    return document(await door.submit(action, wait=0, **more), 202).operation_id
