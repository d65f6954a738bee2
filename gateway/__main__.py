"""The program's entry: refuses to run beside strangers, before anything of theirs is used."""

import gc
import importlib
import os
import sys

MARKER = "action-gateway"
STANDARD_ERROR = 2
PACKAGES = ("gateway", "adapters", "audit", "fixtures")


class StrangerError(RuntimeError):
    """A package of the same name, but not ours, answers an import: this environment is shared with something else."""


def check_packages() -> None:
    """Refuse to run beside strangers: `adapters`, `audit` and `fixtures` are names that others use as well."""
    for name in PACKAGES:
        package = importlib.import_module(name)
        if getattr(package, "MARKER", None) != MARKER:
            where = getattr(package, "__file__", None) or "an unknown place"
            raise StrangerError(
                f"The package {name!r} at {where} does not belong to the Action Gateway. Install the gateway into an"
                " environment of its own (venv, pipx, `uv tool install`, or a container)."
            )


def open_standard_streams() -> None:
    """Put the null device where a standard stream is closed; else the next file, perhaps the log, takes its place."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= STANDARD_ERROR:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(STANDARD_ERROR, "w")


def main() -> None:
    """The `gateway` program; `python -m gateway` is the same."""
    open_standard_streams()
    try:
        check_packages()
    except StrangerError as stranger:
        sys.stderr.write(f"gateway: {stranger}\n")
        raise SystemExit(2) from None
    # What is imported stays; looking for garbage in it takes a tenth of the time until something happens.
    gc.disable()
    # Only now: a stranger would make these imports fail, and a traceback explains nothing.
    from gateway.app import App  # noqa: PLC0415 - after the check above
    from gateway.surfaces.cli.main import run  # noqa: PLC0415 - after the check above

    gc.freeze()
    gc.enable()
    raise SystemExit(run(App(dict(os.environ)), sys.argv[1:]))


if __name__ == "__main__":
    main()
