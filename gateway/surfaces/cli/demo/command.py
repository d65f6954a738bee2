"""The command `gateway demo`: runs the story, prints it, and ends with 0 only if all is as it must be."""

import asyncio
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from gateway.surfaces.cli.client import AnswerLost, Unreachable
from gateway.surfaces.cli.context import Exit, JsonFlag, current, fail
from gateway.surfaces.cli.demo.account import Totals
from gateway.surfaces.cli.demo.http_story import HttpStory
from gateway.surfaces.cli.demo.processes import DemoFailedError
from gateway.surfaces.cli.demo.show import Show
from gateway.surfaces.cli.demo.ssh_story import SshStory
from gateway.surfaces.cli.demo.story import Story
from gateway.surfaces.cli.demo.words import HTTP_WORDS, SSH_WORDS

DEMO_SECONDS_MAX: Final = 150.0
"""The demo takes a few seconds; one that takes this long has failed."""


def demo(
    *,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Leave database, audit log and ledger in this new folder.")
    ] = None,
    ssh: Annotated[bool, typer.Option("--ssh", help="Commands on hosts in place of requests to a service.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Lose answers on purpose and watch them being settled: real processes, real sockets, no set-up.

    Starts a service that keeps a ledger of what really happened, a fault proxy and a gateway, sends requests whose
    answers are lost, late, cut or refused, kills the gateway in the middle, and compares its claims with the ledger.
    With --ssh the same for commands: sessions die before, during and after them, on hosts that have nothing but sh.
    """
    context = current()
    with _folder(keep) as folder:
        show = Show(None if as_json else context.out, keep=keep, words=SSH_WORDS if ssh else HTTP_WORDS)
        environment = context.composition.environment
        story = (
            SshStory(folder, environment, show, context.composition) if ssh else HttpStory(folder, environment, show)
        )
        totals = _play(story, show)
    if as_json:
        context.print_json(totals.to_json())
    raise typer.Exit(verdict(totals))


def verdict(totals: Totals) -> Exit:
    """The exit code; whatever is not as it must be is said on standard error."""
    for sentence in totals.wrong:
        sys.stderr.write(f"gateway: {sentence}\n")
    return Exit.SUCCESS if totals.fine else Exit.ERROR


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="gateway-demo-", ignore_cleanup_errors=True) as name:
            yield Path(name)
        return
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        fail(f"{keep} exists and is not an empty folder; nothing is overwritten.", Exit.USAGE)
    try:
        keep.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fail(f"{keep} cannot be made: {error.strerror}.", Exit.USAGE)
    yield keep


def _play(story: Story, show: Show) -> Totals:
    try:
        return asyncio.run(_within_time(story))
    except DemoFailedError as failed:
        show.end()
        fail(str(failed), Exit.ERROR)
    except asyncio.CancelledError:
        show.end()
        fail("Stopped by a signal; everything that was started has ended.", Exit.ERROR)


async def _within_time(story: Story) -> Totals:
    me = asyncio.current_task()
    if me is not None:
        # A plain SIGTERM would end this process before it could end the ones that it started.
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, me.cancel)
    try:
        async with asyncio.timeout(DEMO_SECONDS_MAX):
            return await story.play()
    except (Unreachable, AnswerLost) as lost:
        raise DemoFailedError(f"The gateway stopped answering: {lost}.") from lost
    except TimeoutError:
        raise DemoFailedError(f"It was not over after {DEMO_SECONDS_MAX:.0f} s, so it has failed.") from None
