"""The demo's agents: they call once, remember what they were told, and ask by their key when an answer is lost."""

from typing import Any, Final

from gateway.surfaces.cli.client import Answer, AnswerLost, Client, Unreachable
from gateway.surfaces.cli.demo.account import FINAL_STATES
from gateway.surfaces.cli.demo.cases import Case
from gateway.surfaces.cli.demo.processes import DemoFailedError

Document = dict[str, Any]

PATIENCE_SECONDS: Final = 1
"""How long a caller waits before it takes a handle."""
POLL_SECONDS: Final = 10
POLLS_MAX: Final = 6


class Callers:
    """All agents of the demo; they share one key."""

    def __init__(self, client: Client) -> None:
        """`client` speaks to the gateway."""
        self._client = client
        self.first: dict[str, Document | None] = {}
        """What each was told first; None where the answer was lost."""
        self.newest: dict[str, Document] = {}
        self.told_unknown: set[str] = set()
        """Operations of which a caller was ever told `unknown`."""

    def turn_to(self, address: str) -> None:
        """The gateway listens elsewhere now."""
        self._client = self._client.at(address)

    async def call(self, case: Case) -> None:
        """Submit once; a lost answer is remembered as such."""
        body = {"action": case.action, "args": case.arguments, "key": case.key, "run": "demo"}
        try:
            answer = await self._client.call(
                "POST",
                "/v1/operations",
                body=body,
                wait_seconds=PATIENCE_SECONDS,
                headers={"Prefer": f"wait={PATIENCE_SECONDS}"},
            )
        except AnswerLost:
            self.first[case.name] = None
            return
        except Unreachable as error:
            raise DemoFailedError(f"The gateway does not answer: {error}.") from error
        self.first[case.name] = self._heard(case, _document(answer))

    async def ask_by_key(self, case: Case) -> None:
        """What a caller does after a lost answer, in place of calling again."""
        query = {"key": case.key, "action": case.action}
        found = _document(await self._client.call("GET", "/v1/operations", query=query))["operations"]
        if len(found) != 1:
            raise DemoFailedError(f"{len(found)} operations are known under the key {case.key}.")
        self._heard(case, found[0])

    async def wait_until_final(self, case: Case) -> Document:
        """Long polls until the operation is final. Raises DemoFailedError."""
        for _ in range(POLLS_MAX):
            document = self.newest[case.name]
            if document["state"] in FINAL_STATES:
                return document
            path = f"/v1/operations/{document['operation_id']}"
            answer = await self._client.call(
                "GET", path, query={"wait": str(POLL_SECONDS)}, wait_seconds=float(POLL_SECONDS)
            )
            self._heard(case, _document(answer))
        raise DemoFailedError(f"{case.name} is still {self.newest[case.name]['state']}.")

    async def reconcile(self, case: Case) -> Document:
        """Have the gateway look at the service's record now."""
        path = f"/v1/operations/{self.newest[case.name]['operation_id']}/reconcile"
        return self._heard(case, _document(await self._client.call("POST", path, wait_seconds=POLL_SECONDS)))

    async def refusal(self, case: Case, *, key: str | None) -> str:
        """Call again with the same arguments; the code of the refusal, or what came in its place."""
        body = {"action": case.action, "args": case.arguments} | ({"key": key} if key else {})
        answer = await self._client.call("POST", "/v1/operations", body=body, wait_seconds=POLL_SECONDS)
        return str(answer.document["code"]) if answer.is_problem else f"taken: {answer.document['state']}"

    async def replay(self, case: Case) -> bool:
        """Call again under the same key; whether the stored outcome came back."""
        body = {"action": case.action, "args": case.arguments, "key": case.key, "run": "demo"}
        answer = _document(await self._client.call("POST", "/v1/operations", body=body, wait_seconds=POLL_SECONDS))
        known = self.newest[case.name]
        return bool(answer["replayed"]) and all(
            answer[name] == known[name] for name in ("operation_id", "outcome", "executed", "attempts")
        )

    async def all_operations(self) -> list[Document]:
        """Every operation that the gateway knows, whoever's it is."""
        page = _document(await self._client.call("GET", "/v1/operations", query={"limit": "200"}))
        documents: list[Document] = page["operations"]
        return documents

    def _heard(self, case: Case, document: Document) -> Document:
        self.newest[case.name] = document
        if document["outcome"] == "unknown":
            self.told_unknown.add(document["operation_id"])
        return document


def _document(answer: Answer) -> Document:
    if answer.is_problem or not isinstance(answer.document, dict):
        raise DemoFailedError(f"The gateway refused: {answer.document}")
    return answer.document
