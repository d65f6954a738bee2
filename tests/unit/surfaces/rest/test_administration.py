"""Keys and credentials over REST: secrets go in once, and come out never."""

from fixtures.service.server import DeployService
from gateway.surfaces.rest.administration import CredentialList, KeyList, MadeKey
from tests.canary import Canaries
from tests.unit.surfaces.door import Answer, Door, Home, open_door


async def admin(door: Door, method: str, path: str, body: object = None) -> Answer:
    return await door.call(method, path, key=door.home.person_key, body=body)


async def set_token(door: Door, value: str, **more: str) -> Answer:
    body = {"kind": "bearer", "value": value, "origin": door.home.service} | more
    return await admin(door, "PUT", "/v1/credentials/token", body)


async def test_a_key_is_shown_once_and_works_until_it_is_revoked(door: Door) -> None:
    made = await admin(door, "POST", "/v1/keys", {"kind": "caller", "name": "agent-c"})
    shown = MadeKey.model_validate(made.document, strict=True)
    listed = await admin(door, "GET", "/v1/keys")
    lines = KeyList.model_validate(listed.document, strict=True).keys

    assert made.status == 201
    assert made.headers["Cache-Control"] == "no-store"
    assert shown.line.owner == "operator"
    # Keys of one millisecond have no order among themselves.
    assert sorted(line.name for line in lines) == ["agent-a", "agent-b", "agent-c", "operator"]
    assert shown.key.encode() not in listed.content
    assert (await door.call("GET", "/v1/actions", key=shown.key)).status == 200

    assert (await admin(door, "DELETE", f"/v1/keys/{shown.line.key_id}")).status == 204
    assert (await door.call("GET", "/v1/actions", key=shown.key)).status == 401
    assert (await admin(door, "DELETE", f"/v1/keys/{shown.line.key_id}")).status == 204
    every = KeyList.model_validate((await admin(door, "GET", "/v1/keys")).document, strict=True).keys
    line = next(line for line in every if line.name == "agent-c")
    assert (line.usable, line.revoked_at is None) == (False, False)


async def test_keys_that_make_no_sense_are_refused_with_a_pointer(door: Door) -> None:
    for body, pointer in [
        ({"kind": "robot", "name": "a"}, "/kind"),
        ({"kind": "caller", "name": ""}, "/name"),
        ({"kind": "caller", "name": "a b"}, "/name"),
        ({"kind": "caller", "name": "a\nb"}, "/name"),
        ({"kind": "caller", "name": "operator"}, "/owner"),
        ({"kind": "caller", "name": "operator", "owner": "ann"}, "/name"),
        ({"kind": "person", "name": "agent-a"}, "/name"),
        ({"kind": "person", "name": "ann", "owner": "bob"}, "/owner"),
        ({"kind": "caller", "name": "agent-c", "owner": "agent-a"}, "/owner"),
        ({"kind": "caller", "name": "agent-c", "expires_at": "tomorrow"}, "/expires_at"),
        ({"kind": "caller", "name": "agent-c", "expires_at": "2027-01-31T00:00:00"}, "/expires_at"),
        ({"kind": "caller", "name": "agent-c", "expires_at": "2001-01-31T00:00:00Z"}, "/expires_at"),
        ({"kind": "caller", "name": "agent-c", "secret": "x"}, ""),
    ]:
        answer = await admin(door, "POST", "/v1/keys", body)
        assert (answer.status, answer.document["code"]) == (422, "invalid_input"), body
        assert [error["pointer"] for error in answer.document["errors"]] == [pointer], body
    for key_id in ("none", "gwk_none", "%27", "a" * 300):
        answer = await admin(door, "DELETE", f"/v1/keys/{key_id}")
        assert (answer.status, answer.document["code"]) == (404, "not_found")
    assert len((await admin(door, "GET", "/v1/keys")).document["keys"]) == 3


async def test_credentials_that_make_no_sense_are_refused_without_being_shown(door: Door, canaries: Canaries) -> None:
    value = canaries.mint()
    for body, pointer in [
        ({"kind": "magic"}, "/kind"),
        ({"origin": "deploys"}, "/origin"),
        ({"origin": "ftp://a"}, "/origin"),
        ({"origin": f"http://user:{value}@a"}, "/origin"),
        ({"kind": "header"}, "/header_name"),
        ({"kind": "header", "header_name": "Bad Name"}, "/header_name"),
        ({"value": ""}, "/value"),
        ({"value": value + "\r\nX: y"}, "/value"),
        ({"kind": "basic", "value": value}, "/value"),
    ]:
        answer = await set_token(door, **{"value": value, **body})
        assert (answer.status, answer.document["code"]) == (422, "invalid_input"), pointer
        assert [error["pointer"] for error in answer.document["errors"]] == [pointer], answer.document
    assert not (await admin(door, "GET", "/v1/credentials")).document["credentials"]
    gone = await admin(door, "DELETE", "/v1/credentials/token")
    assert (gone.status, gone.document["code"]) == (404, "not_found")


async def test_a_credential_that_the_service_echoes_is_nowhere(
    home: Home, service: DeployService, canaries: Canaries
) -> None:
    """S19 and S20 at this door: the answers, the log and the data folder are searched when the test ends."""
    value, awkward, next_value = canaries.mint(), canaries.mint(awkward=True), canaries.mint()
    async with open_door(home, service) as door:
        missing = await door.submit("echo")
        stored = await set_token(door, value)
        listed = await admin(door, "GET", "/v1/credentials")
        read = await door.submit("echo")
        service.faults.add("commit_then_body_echoes_credential")
        written = await door.submit("deploy.secret", name="one")
        service.faults.add("500_with_effect")
        failed = await door.submit("deploy.secret", name="two", wait=0)
        basic = await set_token(door, f"user:{awkward}", kind="basic")
        again = await door.submit("echo", name="basic")
        await set_token(door, next_value)
        await door.submit("echo", name="later")
        old = await door.call("GET", f"/v1/operations/{read.document['operation_id']}")
        removed = await admin(door, "DELETE", "/v1/credentials/token")
        refused = await door.submit("deploy.secret", name="three")

    assert (missing.status, missing.document["code"]) == (409, "credential_missing")
    assert stored.status == basic.status == 200
    CredentialList.model_validate(listed.document, strict=True)
    assert read.document["outcome"] == again.document["outcome"] == "success"
    assert read.document["result"]["authorization"] != f"Bearer {value}"
    assert "authorization" in written.content.decode().lower()
    assert failed.status in {200, 202}
    assert old.status == 200
    assert (removed.status, refused.document["code"]) == (204, "credential_missing")
