"""What every command shares: addresses, keys, and an end in words for whatever happens."""

import os

import pytest
import typer

from gateway.app import App
from gateway.model.problem import Code, FieldError, Problem
from gateway.store.port import Refused, StoreUnknown, Unavailable
from gateway.surfaces.cli.context import Context, Exit, check_seconds
from tests.unit.surfaces.door import Home


def context(**environment: str) -> Context:
    return Context(App(environment))


async def failing(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (Refused("in use"), Exit.ERROR, "gateway: in use\n"),
        (Unavailable("the disk is full"), Exit.ERROR, "the disk is full"),
        (StoreUnknown("lost"), Exit.ERROR, "lost"),
        (PermissionError(13, "Permission denied", "/x"), Exit.ERROR, "/x: Permission denied"),
        (OSError("odd"), Exit.ERROR, "odd"),
        (Problem(Code.FORBIDDEN, "No.", "Ask."), Exit.REFUSED, "gateway: No. Ask.\n"),
        (Problem(Code.INVALID_INPUT, "No.", errors=(FieldError("/a", "b", "c"),)), Exit.REFUSED, "  /a: b c\n"),
        (KeyboardInterrupt(), 130, "Interrupted."),
    ],
)
def test_each_way_to_fail_is_a_sentence_and_an_exit_code(
    capsys: pytest.CaptureFixture[str], error: BaseException, code: int, told: str
) -> None:
    with pytest.raises(typer.Exit) as ended:
        context().run(failing(error))

    assert ended.value.exit_code == code
    assert told in capsys.readouterr().err


def test_a_reader_that_went_away_is_nobodys_mistake() -> None:
    with pytest.raises(BrokenPipeError):
        context().run(failing(BrokenPipeError(32, "Broken pipe")))


def test_the_address_comes_from_the_environment_the_settings_or_the_default(home: Home) -> None:
    home.configure("http://127.0.0.1:9", server={"port": 1234})

    assert context(GATEWAY_ADDR="[::1]:5/").address() == "http://[::1]:5"
    assert context(GATEWAY_CONFIG=str(home.config)).address() == "http://127.0.0.1:1234"
    assert context(GATEWAY_CONFIG="/nowhere").address() == "http://127.0.0.1:8420"
    home.configure("http://127.0.0.1:9", server={"host": "::1"})
    assert context(GATEWAY_CONFIG=str(home.config)).address() == "http://[::1]:0"


@pytest.mark.parametrize("odd", ["nowhere", "127.0.0.1:65536", "127.0.0.1:99999", "https://a:1", "a:1/x"])
def test_an_address_that_nobody_can_dial_is_wrong_usage(odd: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        context(GATEWAY_ADDR=odd).address()

    assert ended.value.exit_code == Exit.USAGE
    assert "write host:port" in capsys.readouterr().err


def test_a_key_is_taken_without_the_line_end_that_a_file_has() -> None:
    assert context(GATEWAY_KEY=" gwk_x\n").key() == "gwk_x"
    assert context().key_if_any() == ""


def test_seconds_are_a_number_of_them() -> None:
    assert check_seconds(0.5) == 0.5
    for odd in (-1.0, float("nan"), float("inf")):
        with pytest.raises(typer.BadParameter):
            check_seconds(odd)


def test_nothing_of_this_depends_on_the_process_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "GATEWAY_KEY", "gwk_other")

    assert context().key_if_any() == ""
