"""Commands that make runs, and that look at them."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter, validators
from rich.console import Console

from brinell.commands.app import (
    HOW,
    NO_OPTIONS,
    Options,
    app,
    consoles,
    interrupts,
    named,
    recorded_spec,
    spec_from,
    subject_from,
)
from brinell.commands.smoothing import report_smoothing, verify_smoothing
from brinell.errors import EXIT_DONE, EXIT_INCOMPLETE, EXIT_VERIFICATION_FAILED, BadInput

if TYPE_CHECKING:
    from brinell.result import Reading
    from brinell.run import Run
    from brinell.spec import Spec
    from brinell.subject import Subject


@app.command
def run(
    spec: Path | None = None,
    /,
    *,
    options: Options = NO_OPTIONS,
    out: Annotated[Path | None, Parameter(group=HOW)] = None,
    resume: Annotated[Path | None, Parameter(group=HOW)] = None,
    quiet: Annotated[bool, Parameter(group=HOW)] = False,
    json: Annotated[bool, Parameter(group=HOW)] = False,
) -> int:
    """Attack a classifier, keep the record of every row, and print the figures.

    Without anything said: the built-in adversarially trained model on its 1,000 rows.

    Parameters
    ----------
    spec
        A TOML file that says what is evaluated; options override it.
    out
        Folder of the run, new or empty. [default: runs/…, named after what is run]
    resume
        Go on with the run in this folder; takes no spec and no options.
    quiet
        No progress, no messages.
    json
        Print the result as JSON.
    """
    from brinell.report.show import as_json, as_text

    _, errors = consoles(quiet=quiet)
    if resume is not None:
        others = ([] if spec is None else [str(spec)]) + named(options) + ([] if out is None else ["--out"])
        if others:
            got = f"{', '.join(others)} beside it"
            raise BadInput("--resume", got=got, expected="the folder alone", remedy="Drop them.")
        reading, folder = _gone_on_with(resume, errors, quiet=quiet or json), resume
    else:
        asked = spec_from(spec, options)
        subject, folder = subject_from(asked), out or _free_folder(asked)
        reading = _carried_out(_begun(subject, folder), errors, quiet=quiet or json)
    (as_json if json else as_text)(reading)
    if reading.manifest.cut and not reading.figures.complete:
        errors.print(f"The budget was spent before every row was attacked. The record is in {folder}.", soft_wrap=True)
        return EXIT_INCOMPLETE
    if not reading.complete:
        errors.print(
            f"The run is incomplete. Go on with: brinell run --resume {shlex.quote(str(folder))}", soft_wrap=True
        )
        return EXIT_INCOMPLETE
    errors.print(f"The record is in {folder}. Check it with: brinell verify {shlex.quote(str(folder))}", soft_wrap=True)
    return EXIT_DONE


@app.command
def plan(spec: Path | None = None, /, *, options: Options = NO_OPTIONS, json: bool = False) -> int:
    """Say what a run would cost in passes and in time on this machine; attacks nothing.

    Parameters
    ----------
    spec
        A TOML file that says what is evaluated; options override it.
    json
        Print the plan as JSON.
    """
    from brinell.plan import plan_of
    from brinell.report.show import plan_as_json, plan_as_text

    (plan_as_json if json else plan_as_text)(plan_of(subject_from(spec_from(spec, options))))
    return EXIT_DONE


@app.command
def verify(
    folder: Path,
    /,
    *,
    model: str | None = None,
    data: str | None = None,
    files_only: bool = False,
    seconds: Annotated[float | None, Parameter(validator=validators.Number(gt=0, lt=10**9))] = None,
    json: bool = False,
) -> int:
    """Check a run again from its own files, then every witness with the model; with --seconds every certificate too.

    Parameters
    ----------
    folder
        The run's folder.
    model
        Where the model is, if not where the run says.
    data
        Where the data are, if not where the run says.
    files_only
        Leave model and data alone.
    seconds
        Prove certificates again, about so long a row at most. [default: they are not]
    json
        Print the findings as JSON.
    """
    from brinell.assemble import loaded_from
    from brinell.checks.finding import Finding
    from brinell.report.show import findings_as_json, findings_as_text
    from brinell.smoothing.folder import holds_smoothing
    from brinell.verify import verify_files, verify_with_model

    if files_only and seconds is not None:
        raise BadInput("--seconds", got="--files-only", expected="one of them", remedy="A proof needs model and data.")
    smoothed = holds_smoothing(folder)
    findings = verify_smoothing(folder, model, data, files_only, seconds) if smoothed else verify_files(folder)
    if not files_only and not smoothed:
        try:
            loaded = loaded_from(recorded_spec(folder, model, data))
        except BadInput as error:
            findings.append(Finding("model and data", None, f"{error} Name them with --model and --data."))
        else:
            findings += verify_with_model(folder, loaded.model, loaded.rows, loaded.surrogate, seconds=seconds)
    if files_only:
        findings.append(
            Finding("model and data", None, "left alone, as --files-only asks: nothing was asked of the model")
        )
    (findings_as_json if json else findings_as_text)(findings)
    return EXIT_VERIFICATION_FAILED if any(finding.holds is False for finding in findings) else EXIT_DONE


@app.command(name="import")
def import_(
    tool: Literal["arrays", "foolbox", "art", "autoattack", "torchattacks"],
    /,
    *files: Path,
    options: Options = NO_OPTIONS,
    out: Annotated[Path | None, Parameter(group=HOW)] = None,
    quiet: Annotated[bool, Parameter(group=HOW)] = False,
    json: Annotated[bool, Parameter(group=HOW)] = False,
) -> int:
    """Judge points that another tool made, and say what was found in its files; see docs/imports.md for their names.

    Without --model nothing is judged: findings are printed, and no run is made.

    Parameters
    ----------
    tool
        By whose names the arrays go.
    files
        .npz, .npy, .safetensors or .pt files with the points, and what belongs to them.
    out
        Folder of the run, new or empty; without --model, a new JSON file.
    quiet
        No progress, no messages.
    json
        Print the result as JSON.
    """
    from brinell.imports.request import requested
    from brinell.report.show import as_json, as_text, unjudged_as_json, unjudged_as_text, write_new

    _, errors = consoles(quiet=quiet)
    request = requested(tool, files, options.overrides())
    if options.model is None:
        imported = request.unjudged()
        if out is not None:
            write_new(out, unjudged_as_json(imported))
        print(unjudged_as_json(imported)) if json else unjudged_as_text(imported)
        return EXIT_DONE
    ready = request.prepared()
    folder = out or _free_folder(request.spec())
    reading = ready.concluded(_carried_out(ready.begun(folder), errors, quiet=quiet or json))
    (as_json if json else as_text)(reading)
    if not reading.figures.complete:
        errors.print("The import was cut off and cannot be resumed: import again, into another folder.", soft_wrap=True)
        return EXIT_INCOMPLETE
    errors.print(f"The record is in {folder}. Check it with: brinell verify {shlex.quote(str(folder))}", soft_wrap=True)
    return EXIT_DONE


@app.command
def report(
    folder: Path,
    /,
    *,
    format: Literal["text", "json", "markdown", "html", "latex", "robustbench", "model-card"] = "text",
    out: Path | None = None,
) -> int:
    """Print a run's figures from its ledger, or write them as a page.

    Parameters
    ----------
    folder
        The run's folder; a run under way is reported as far as it has got.
    format
        text, json, markdown, latex (tables for a paper), html (a page of its own, written to a file),
        robustbench (an entry of that leaderboard), or model-card (a block for Hugging Face).
    out
        Where the page goes. [default: report.html in the run's folder]
    """
    from brinell.report.entries import as_model_card, as_robustbench
    from brinell.report.show import as_html, as_json, as_latex, as_markdown, as_text
    from brinell.result import read_run
    from brinell.smoothing.folder import holds_smoothing

    if out is not None and format != "html":
        raise BadInput(
            "--out", got=f"--format {format}", expected="--format html", remedy="Drop it, and use the shell's >."
        )
    if holds_smoothing(folder):
        return report_smoothing(folder, format, out)
    reading = read_run(folder)
    shown = {"text": as_text, "json": as_json, "markdown": as_markdown, "latex": as_latex}
    shown |= {"robustbench": as_robustbench, "model-card": as_model_card}
    if format == "html":
        as_html(reading, out)
    else:
        shown[format](reading)
    return EXIT_DONE if reading.complete else EXIT_INCOMPLETE


def _free_folder(spec: "Spec") -> Path:
    from brinell.assemble import free_folder

    return free_folder(spec)


def _begun(subject: "Subject", folder: Path) -> "Run":
    from brinell.opening import begin

    return begin(subject, folder)


def _gone_on_with(folder: Path, errors: Console, *, quiet: bool) -> "Reading":
    """A run that was cut off, carried on; a run that had ended, as it is."""
    from brinell.opening import resume
    from brinell.result import read_run

    before = read_run(folder)
    if before.manifest.state == "complete":
        return before
    return _carried_out(resume(subject_from(recorded_spec(folder, None, None)), folder), errors, quiet=quiet)


def _carried_out(opened: "Run", errors: Console, *, quiet: bool) -> "Reading":
    from brinell.finishing import finish
    from brinell.progress import shown_on

    with interrupts(errors) as stopped, shown_on(errors, quiet=quiet) as observer:
        return finish(opened, observer, stop=stopped)
