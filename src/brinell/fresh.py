"""Whether a folder is new, and can be written in: asked before any work is done for it."""

import json
import shlex
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

from brinell.errors import BadInput
from brinell.manifest import MANIFEST

RUN, SMOOTHED = "a run", "a smoothed classifier's record"
GOES_ON = {RUN: "brinell run --resume", SMOOTHED: "brinell certify --resume"}
"""The command that goes on with what a folder holds, where there is one."""


def refuse_taken(folder: Path) -> None:
    """Refuse an output folder that is a file or holds something; the remedy names the command that goes on with it.

    What a process that was killed left of a manifest does not count.

    Raises
    ------
    BadInput
        In these cases, and where the folder cannot be looked at.
    """
    try:
        is_file = folder.is_file()
        holds = folder.is_dir() and any(path.name != f"{MANIFEST}.partial" for path in folder.iterdir())
    except OSError as error:
        raise _unwritable(folder, error) from None
    if not is_file and not holds:
        return
    kind = None if is_file else _kind(folder)
    raise BadInput(
        f"output folder {folder}",
        got="a file" if is_file else "a folder that is not empty" if kind is None else f"{kind} that is there already",
        expected="a new folder",
        remedy="Name another with --out."
        if kind not in GOES_ON
        else f"Name another with --out, or go on with it: {GOES_ON[kind]} {shlex.quote(str(folder))}.",
    )


def refuse_unwritable(folder: Path) -> None:
    """Refuse an output folder that cannot be made or written in; what is made to find out is removed again.

    Raises
    ------
    BadInput
        With what the system says.
    """
    made: list[Path] = []
    try:
        made = [path for path in (folder, *folder.parents) if not path.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _unwritable(folder, error) from None
    finally:
        for path in made:  # the innermost first
            with suppress(OSError):  # not made, or somebody else's by now
                path.rmdir()


def _kind(folder: Path) -> str | None:
    """What a folder holds, in words; None: nothing of Brinell's."""
    try:
        table = json.loads((folder / MANIFEST).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(table, dict):
        return None
    if table.get("kind") == "smoothing":
        return SMOOTHED
    return "an imported run" if table.get("imported") is not None else RUN


def _unwritable(folder: Path, error: OSError) -> BadInput:
    return BadInput(
        f"output folder {folder}",
        got=error.strerror or str(error),
        expected="a folder that can be made and written in",
        remedy="Name another with --out.",
    )
