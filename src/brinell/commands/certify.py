"""Commands that prove: which rows have no witness at all."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators
from rich.console import Console

from brinell.certify.steps import Step
from brinell.commands.app import app, consoles, interrupts, recorded_spec, subject_from
from brinell.errors import EXIT_DONE


@app.command
def certify(
    folder: Path,
    /,
    *,
    method: Step = "branch",
    seconds: Annotated[float, Parameter(validator=validators.Number(gt=0, lt=10**9))] = 20.0,
    model: str | None = None,
    data: str | None = None,
    quiet: bool = False,
    json: bool = False,
) -> int:
    """Prove, where that can be done, that rows left standing by a run's attacks have no witness; print both bounds.

    Parameters
    ----------
    folder
        The folder of a complete run; certificates are added to its record.
    method
        The dearest step that a row may be given: interval, crown, slopes, layers or branch.
    seconds
        About how long one row may take. Rows that are certified already are not asked again.
    model
        Where the model is, if not where the run says.
    data
        Where the data are, if not where the run says.
    quiet
        No progress.
    json
        Print the result as JSON.
    """
    from brinell.certifying import certify_run
    from brinell.report.show import as_json, as_text
    from brinell.spec import CertifySpec

    asked = CertifySpec(method=method, seconds=seconds)
    _, errors = consoles(quiet=quiet or json)
    subject = subject_from(recorded_spec(folder, model, data))
    with interrupts(errors) as stopped:
        reading = certify_run(subject, folder, asked=asked, told=_counting(errors), stop=stopped)
    (as_json if json else as_text)(reading)
    return EXIT_DONE


def _counting(errors: Console) -> Callable[[int, int, int], None]:
    """A line where the terminal shows one, rewritten row by row."""

    def told(asked: int, of: int, proved: int) -> None:
        if errors.is_terminal:
            errors.print(f"{asked} of {of} rows asked, {proved} certified", end="\r" if asked < of else "\n")

    return told
