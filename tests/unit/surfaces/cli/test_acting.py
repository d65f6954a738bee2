"""Commands of callers against a running gateway: what they print, and the exit code for each end."""

import json
import re

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.surfaces.cli import acting, client
from tests.unit.surfaces.cli.conftest import Hall, Program

OPERATION = re.compile(r"op_[0-7][0-9a-hjkmnp-tv-z]{25}")
MISSING = "op_01jd3v6k8n5q7r9s2t4w6x8y0z"


def wanted(name: str, *more: str) -> tuple[str, ...]:
    """Arguments of a call that has not been made before."""
    return ("call", "deploy", "--arg", f"name={name}", *more)


# -- call --------------------------------------------------------------------------------------------------------------


def test_success_is_0_and_says_what_happened_at_a_glance(caller: Program) -> None:
    said = caller(*wanted("glance", "--run", "r-1"))

    assert said.code == 0
    assert said.out.startswith("success  deploy  op_")
    assert "state succeeded · executed yes · by answer" in said.out
    assert "send 1 201: answered (settled)" in said.out
    assert "audit door.test/audit entry" in said.out
    assert said.err == ""


def test_error_is_1(caller: Program, hall: Hall) -> None:
    hall.ask(hall.service.down())
    try:
        document = caller.json("call", "deploy.blind", "--arg", "name=down")
        assert caller("operations", "show", document["operation_id"]).code == 1
    finally:
        hall.now(hall.service.up)
    assert (document["outcome"], document["executed"]) == ("error", "no")


def test_unknown_is_3_and_a_later_look_is_0(caller: Program, hall: Hall) -> None:
    hall.fault("commit_then_drop")
    hall.fault("lookup_unavailable", times=3)

    said = caller(*wanted("later", "--wait", "0"))
    operation = OPERATION.findall(said.out)[0]
    done = caller("operations", "wait", operation)

    assert said.code == 3
    assert "unknown" in said.out
    assert "Do not" in said.out
    assert done.code == 0


def test_refused_is_6_with_code_guidance_and_pointer(caller: Program, hall: Hall) -> None:
    before = hall.sent
    for arguments, told in [
        (("call", "nothing"), "[unknown_action]"),
        (("call", "deploy", "--args", '{"name": 5}'), "/args/name: This must be text."),
        (("call", "deploy", "--arg", "name=A B"), "/args/name: "),
        (("call", "deploy", "--arg", "name=a", "--key", "a b"), "/key: "),
        (("call", "locked", "--arg", "name=a"), "[credential_missing]"),
        (("call", "look", "--arg", "name=production"), "[forbidden]"),
    ]:
        said = caller(*arguments)
        assert said.code == 6, arguments
        assert told in said.err
        assert said.out == ""
        assert caller(*arguments, "--json").document["guidance"]
    assert hall.sent == before


def test_a_probable_repeat_is_refused_with_the_earlier_document(caller: Program) -> None:
    body = ("call", "deploy", "--args", json.dumps({"name": "twice"}))
    first = caller.json(*body, "--key", "k-twice")
    again = caller.json(*body, "--key", "k-twice")
    said = caller("call", "deploy", "--arg", "name=other", "--key", "k-twice")

    assert again["operation_id"] == first["operation_id"]
    assert again["replayed"]
    assert said.code == 6
    assert "[key_reused]" in said.err
    assert f"gateway operations show {first['operation_id']}" in said.err


def test_the_same_call_again_without_a_key_is_a_probable_repeat_and_with_a_new_key_is_meant(
    caller: Program, hall: Hall
) -> None:
    before = hall.sent
    first = caller.json(*wanted("once-more"))
    again = caller(*wanted("once-more"))
    meant = caller.json(*wanted("once-more", "--key", "k-once-more"))

    assert first["key"].startswith("minted-")
    assert again.code == 6
    assert "[probable_repeat]" in again.err
    assert first["operation_id"] in again.out
    assert meant["outcome"] == "success"
    assert hall.sent == before + 2


def test_unreachable_is_5_and_nothing_left(caller: Program, hall: Hall) -> None:
    before = hall.sent
    for arguments in (wanted("nobody"), ("operations", "list"), ("actions", "list"), ("runs", "show", "r")):
        said = caller(*arguments, GATEWAY_ADDR="127.0.0.1:9")
        assert said.code == 5
        assert "nothing left" in said.err
        assert "gateway serve" in said.err
    assert hall.sent == before


def test_a_lost_answer_is_asked_for_by_key_and_never_sent_again(caller: Program, hall: Hall) -> None:
    before = hall.sent
    # The third request of the call: the form of the argument is asked for first, then the operation is submitted.
    hall.now(lambda: hall.proxy.toxics.add("deliver_then_cut", times=1))

    said = caller("call", "deploy", "--args", '{"name": "lost"}', "--json", GATEWAY_ADDR=hall.proxy.address)

    assert said.code == 0, said.err
    assert said.document["outcome"] == "success"
    assert said.document["key"].startswith("minted-")
    assert hall.sent == before + 1


def test_a_lost_submission_is_unknown_and_names_its_key(
    caller: Program, hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acting, "ASK_AGAIN_SECONDS", (0.0, 0.1))
    hall.now(lambda: hall.proxy.toxics.add("swallow_then_cut", times=1))
    never = caller("call", "deploy", "--args", '{"name": "never"}', GATEWAY_ADDR=hall.proxy.address)
    hall.now(lambda: hall.proxy.toxics.add("deliver_then_cut", times=1))
    hall.now(lambda: hall.proxy.toxics.add("swallow_then_cut", times=2, skip=1))
    lost = caller("call", "deploy", "--args", '{"name": "gone"}', GATEWAY_ADDR=hall.proxy.address)

    assert (never.code, lost.code) == (3, 3), (never, lost)
    assert "Submitting again under the same key is safe" in never.err
    key = re.findall(r"gateway operations list --key (minted-[0-9a-f]{32})", lost.err)[0]
    while not (listed := caller.json("operations", "list", "--key", key)["operations"]):
        pass
    assert caller("operations", "wait", listed[0]["operation_id"]).code == 0


def test_a_wait_that_is_cut_says_what_was_last_known(
    caller: Program, hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    hall.fault("commit_then_drop")
    hall.fault("lookup_unavailable", times=5)
    operation = caller.json(*wanted("cut", "--wait", "0"))["operation_id"]
    hall.now(lambda: hall.proxy.toxics.add("deliver_then_cut", times=None))
    monkeypatch.setattr(client, "SLACK_SECONDS", 1.0)

    said = caller("operations", "wait", operation, GATEWAY_ADDR=hall.proxy.address)
    hall.now(hall.proxy.toxics.remove)

    assert said.code == 3
    assert "lost" in said.err
    caller("operations", "wait", operation)


def test_arguments_are_read_by_their_declared_types(
    caller: Program, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = caller.json("call", "look", "--arg", "name=42", "--arg", "count=7")
    both = caller.json("call", "look", "--args", '{"name": "x"}', "--arg", "count=8")

    assert typed["outcome"] == both["outcome"] == "success"
    assert typed["target"]["url"].endswith("/environments/42")
    for arguments, told in [
        (("--arg", "name"), "--arg takes name=value"),
        (("--arg", "=x"), "--arg takes name=value"),
        (("--args", "{"), "--args is not JSON"),
        (("--args", '{"a": 1, "a": 2}'), "--args is not JSON"),
        (("--args", "[]"), "--args must be a JSON object"),
        (("--arg", "name=a", "--arg", "name=b"), "The argument name is given twice; nothing was sent."),
        (("--args", '{"name": "a"}', "--arg", "name=b"), "The argument name is given twice; nothing was sent."),
        (("--wait", "nan"), "not a number of seconds"),
        (("--wait", "-1"), "not a number of seconds"),
        (("--wait", "soon"), "valid number"),
        (("--unknown",), "No such option"),
    ]:
        said = caller("call", "look", *arguments)
        assert said.code == 2, arguments
        assert told in said.err
    assert caller("call").code == 2


def test_what_the_environment_lacks_is_a_usage_error(caller: Program) -> None:
    for environment, told in [
        ({"GATEWAY_KEY": ""}, "set GATEWAY_KEY"),
        ({"GATEWAY_KEY": "a b"}, "does not hold a key"),
        ({"GATEWAY_KEY": "a\nb"}, "does not hold a key"),
        ({"GATEWAY_ADDR": "nowhere"}, "write host:port"),
        ({"GATEWAY_ADDR": "http://[::1"}, "write host:port"),
        ({"GATEWAY_ADDR": "ftp://a:1"}, "write host:port"),
        ({"GATEWAY_ADDR": "http://a:1/path"}, "write host:port"),
    ]:
        said = caller("operations", "list", **environment)
        assert said.code == 2, environment
        assert told in said.err
    wrong = caller("operations", "list", GATEWAY_KEY="gwk_wrong")
    assert wrong.code == 6
    assert "[unauthenticated]" in wrong.err
    assert caller("operations", "list", GATEWAY_ADDR=f"http://{caller.environment['GATEWAY_ADDR']}/").code == 0


def test_another_program_at_that_address_is_told_from_a_gateway(caller: Program, hall: Hall) -> None:
    said = caller("operations", "list", GATEWAY_ADDR=f"127.0.0.1:{hall.service.port}")

    assert said.code == 3
    assert "is another program listening there?" in said.err


def test_a_program_that_answers_in_json_is_no_gateway_and_its_yes_no_outcome(caller: Program, hall: Hall) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.json_response({"ok": True})

    async def open_other() -> TestServer:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        server = TestServer(app)
        await server.start_server()
        return server

    other = hall.ask(open_other())
    try:
        for arguments in (("operations", "list"), ("actions", "list"), ("call", "deploy", "--args", '{"name": "a"}')):
            said = caller(*arguments, GATEWAY_ADDR=f"127.0.0.1:{other.port}")
            assert (said.code, "not the answer of a gateway" in said.err) == (3, True), arguments
    finally:
        hall.ask(other.close())


def test_what_a_script_forgot_to_set_is_told_and_nothing_is_sent(caller: Program, hall: Hall) -> None:
    sent = hall.sent
    for arguments in (
        ("call", "deploy", "--arg", "name=empty", "--key", ""),
        ("call", "deploy", "--arg", "name=empty", "--run", ""),
        ("call", "", "--arg", "name=empty"),
        ("operations", "show", ""),
        ("runs", "show", ""),
    ):
        said = caller(*arguments)
        assert (said.code, "was a variable not set?" in said.err) == (2, True), arguments
    assert caller("operations", "show", "o" * 9000).code == 2
    assert hall.sent == sent


def test_bytes_that_are_no_text_are_a_usage_error(caller: Program) -> None:
    said = caller("call", "deploy", "--arg", "name=\udcff")

    assert (said.code, said.err) == (2, "gateway: An argument is not UTF-8 text.\n")


# -- operations --------------------------------------------------------------------------------------------------------


def test_lists_have_filters_and_pages(caller: Program) -> None:
    for number in range(3):
        caller.json("call", "look", "--arg", "name=list", "--run", "r-list", "--key", f"k-list-{number}")

    page = caller.json("operations", "list", "--run", "r-list", "--limit", "2")
    rest = caller.json("operations", "list", "--run", "r-list", "--cursor", page["cursor"])
    shown = caller("operations", "list", "--run", "r-list", "--limit", "2")

    assert (len(page["operations"]), len(rest["operations"]), rest["cursor"]) == (2, 1, None)
    assert shown.code == 0
    assert shown.out.count("op_") == 3
    assert "more: --cursor op_" in shown.out
    assert max(len(line) for line in shown.out.splitlines()) > 80  # nothing is folded for a pipe
    assert caller("operations", "list", "--run", "none").out == "No operations.\n"
    assert caller("operations", "list", "--since", "yesterday").code == 6
    assert caller("operations", "list", "--limit", "0").code == 2


def test_a_word_that_is_none_of_the_choices_is_told_what_they_are(caller: Program, person: Program) -> None:
    settle = ("attest", MISSING, "--reason", "seen", "--digest", "0" * 64)
    for arguments, told in [
        (("list", "--state", "done"), "in_doubt, unresolved, succeeded, failed or cancelled."),
        (("list", "--outcome", "maybe"), "--outcome takes success, error or unknown."),
        (("cancel", MISSING, "--signal", "HUP"), "--signal takes TERM, INT or KILL."),
        ((*settle, "--outcome", "unknown", "--executed", "yes"), "--outcome takes success or error."),
        ((*settle, "--outcome", "error", "--executed", "perhaps"), "--executed takes yes, no or unknown."),
        ((*settle, "--outcome", "success", "--executed", "no"), "give --executed yes with it."),
    ]:
        said = person("operations", *arguments)
        assert (said.code, told in said.err) == (2, True), arguments
    assert caller("operations", "list", "--state", "unresolved", "--outcome", "unknown").code == 0


def test_names_lead_nowhere_else(caller: Program, person: Program) -> None:
    for name in ("..", "../keys", "%2e%2e/keys", "x?wait=1", "x#y", "a/b"):
        for command in ("show", "wait", "cancel", "reconcile"):
            said = person("operations", command, name)
            assert said.code == 6, (command, name)
            assert "[not_found]" in said.err or "[method_not_allowed]" in said.err
        assert person("actions", "show", name).code == 6
    assert caller("runs", "show", "../keys").code == 0  # a run of that name, which nobody used
    assert caller("operations", "show", MISSING).code == 6


def test_cancel_and_reconcile_leave_alone_what_is_settled(caller: Program) -> None:
    operation = caller.json("call", "look", "--arg", "name=settled")["operation_id"]

    for command in ("cancel", "reconcile"):
        assert caller("operations", command, operation).code == 0
        assert caller.json("operations", command, operation)["state"] == "succeeded"
    assert "It had already ended: nothing was cancelled." in caller("operations", "cancel", operation).out
    assert caller.json("operations", "cancel", operation)["already_ended"] is True


def test_a_person_attests_what_they_were_shown(
    caller: Program, person: Program, hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    hall.fault("commit_then_drop")
    operation = caller.json("call", "deploy.blind", "--arg", "name=attest", "--wait", "0")["operation_id"]
    hall.ask(hall.door.until(operation, "unresolved"))
    word = (operation, "--outcome", "success", "--executed", "yes", "--reason", "seen [there]")

    assert caller("operations", "show", operation).code == 3
    assert "[forbidden]" in caller("operations", "attest", *word, "--digest", "0" * 64).err
    assert "[stale_digest]" in person("operations", "attest", *word, "--digest", "0" * 64).err
    assert person("operations", "attest", *word, "--yes").code == 2
    assert person("operations", "attest", *word, "--json").code == 2
    monkeypatch.setattr("typer.confirm", lambda _question: False)
    assert person("operations", "attest", *word).code == 1
    monkeypatch.setattr("typer.confirm", lambda _question: True)
    settled = person("operations", "attest", *word)
    assert settled.code == 0
    assert "by attestation" in settled.out
    assert "only an unresolved one" in person("operations", "attest", *word).err


# -- runs and actions --------------------------------------------------------------------------------------------------


def test_a_run_and_actions_are_shown(caller: Program) -> None:
    caller.json("call", "look", "--arg", "name=run", "--run", "r-shown")

    run, actions, action = (
        caller("runs", "show", "r-shown"),
        caller("actions", "list"),
        caller("actions", "show", "look"),
    )

    assert run.code == actions.code == action.code == 0
    assert "Every operation of this run is settled" in run.out
    assert caller.json("runs", "show", "r-shown")["unsettled"] == 0
    assert re.search(r"^action +effect +service or host +description", actions.out, re.MULTILINE)
    assert re.search(r"^look +read +deploys +Look\.", actions.out, re.MULTILINE)
    assert "forbidden" not in [item["name"] for item in caller.json("actions", "list")["actions"]]
    assert re.search(r'^name +yes +\{.*"type": "string"', action.out, re.MULTILINE)
    assert caller.json("actions", "show", "look")["effect"] == "read"
    assert caller("actions", "show", "forbidden").code == 6
