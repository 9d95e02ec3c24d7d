"""The command. Thin: it reads options, calls, prints, and turns errors into exit codes.

Results go to stdout, progress and messages to stderr. torch is imported only by the commands that compute.
"""

import os
import sys

from cyclopts import CycloptsError

from brinell.commands import certify, lists, runs, trust
from brinell.commands.app import app, consoles
from brinell.errors import EXIT_BAD_INPUT, EXIT_DONE, BrinellError

COMMANDS = (runs, trust, certify, lists)
"""Importing them makes the commands known to the app."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command; its exit code."""
    _, errors = consoles()
    try:
        outcome = app(arguments, exit_on_error=False, print_error=False, error_console=errors)
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_DONE
    except CycloptsError as error:
        errors.print("bad input", style="bold red", end="  ")
        errors.print(str(error), soft_wrap=True)
        return EXIT_BAD_INPUT
    except BrinellError as error:
        errors.print(error.subject, style="bold red", soft_wrap=True)
        for label, text in (("got", error.got), ("expected", error.expected), ("remedy", error.remedy)):
            errors.print(f"  {label:<9}", style="dim", end="")
            errors.print(text, soft_wrap=True)
        return error.exit_code
    return outcome if isinstance(outcome, int) else EXIT_DONE


def entry() -> None:
    """The console script."""
    sys.exit(main())
