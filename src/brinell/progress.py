"""How far a run has got, on the terminal."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from brinell.tally import Moment, Observer, ignore


@contextmanager
def shown_on(console: Console, *, quiet: bool) -> Iterator[Observer]:
    """An observer that draws a bar; silent where nobody watches.

    The bar is passes made of passes forecast if no further row falls, so that it only ever jumps ahead.
    """
    if quiet or not console.is_terminal:
        yield ignore
        return
    bar = Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[rows]}"),
        TextColumn("[dim]{task.fields[passes]}"),
        TimeRemainingColumn(compact=True),
        console=console,
        transient=True,
    )
    with bar:
        task = bar.add_task("scoring the clean rows", total=None, rows="", passes="")

        def observe(moment: Moment) -> None:
            bar.update(
                task,
                description=moment.label,
                completed=sum(moment.spent),
                total=sum(moment.forecast),
                rows=f"{moment.standing:,} standing, {moment.fallen:,} fallen",
                passes=f"{sum(moment.spent):,} of ≤ {sum(moment.forecast):,} passes",
            )

        yield observe
