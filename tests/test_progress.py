"""Progress on a terminal, and silence elsewhere."""

import io

from rich.console import Console

from brinell.progress import shown_on
from brinell.queries import Cost
from brinell.tally import Moment

MOMENT = Moment("apgd ce", standing=7, fallen=3, spent=Cost(1000, 900), forecast=Cost(2000, 1900))


def shown(console: Console, *, quiet: bool) -> str:
    with shown_on(console, quiet=quiet) as observer:
        observer(MOMENT)
        observer(MOMENT)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_terminal_sees_attack_rows_and_passes() -> None:
    text = shown(Console(file=io.StringIO(), force_terminal=True, width=140), quiet=False)
    for part in ("scoring the clean rows", "apgd ce", "7 standing, 3 fallen", "1,900 of ≤ 3,900 passes"):
        assert part in text


def test_nobody_else_sees_anything() -> None:
    assert shown(Console(file=io.StringIO(), force_terminal=True), quiet=True) == ""
    assert shown(Console(file=io.StringIO(), force_terminal=False), quiet=False) == ""
