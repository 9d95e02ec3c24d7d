"""The command. Thin: it reads options, calls, prints, and turns errors into exit codes.

Results go to stdout, progress and messages to stderr. torch is imported only by the commands that compute.
"""

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, CycloptsError, Group, Parameter, validators
from rich.console import Console

from brinell.errors import (
    EXIT_BAD_INPUT,
    EXIT_DONE,
    EXIT_INCOMPLETE,
    EXIT_KILLED_BY_SECOND_INTERRUPT,
    EXIT_OPEN,
    EXIT_VERIFICATION_FAILED,
    BadInput,
    BrinellError,
)

if TYPE_CHECKING:
    from brinell.diagnose.diagnosis import Diagnosis
    from brinell.result import Reading
    from brinell.run import Run
    from brinell.spec import Spec
    from brinell.subject import Subject

EXIT_CODES = """Exit codes: 0 done · 2 bad input, nothing was attacked · 3 run incomplete, go on with --resume ·
4 verification or self-test failed · 5 the model failed · 6 nothing follows, fields are missing, or checks are open ·
130 killed by a second Ctrl-C."""

app = App(
    name="brinell",
    help="Robustness numbers that can be believed: attack a classifier, keep the record, print figures with their counts.",
    help_epilogue=EXIT_CODES,
    version=lambda: _version(),
    default_parameter=Parameter(negative=()),
    result_action="return_value",
)
_what = Group("What is evaluated", sort_key=1)
_how = Group("How", sort_key=2)


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """What can be said on the command line; each option overrides the spec file."""

    model: Annotated[str | None, Parameter(group=_what)] = None
    """builtin:NAME, file.py:function or package.module:name. [default: builtin:fmnist-at]"""
    data: Annotated[str | None, Parameter(group=_what)] = None
    """builtin:fmnist, an .npz file with x and y, or file.py:function that returns (x, y)."""
    rows: Annotated[str | None, Parameter(group=_what)] = None
    """all, a slice 0:1000, or a list 3,17,5:9. [default: all]"""
    norm: Annotated[str | None, Parameter(group=_what)] = None
    """linf, l2 or l1."""
    eps: Annotated[str | None, Parameter(group=_what)] = None
    """Radius in input units: a decimal, or a fraction such as 8/255."""
    low: Annotated[float | None, Parameter(group=_what)] = None
    """Lower bound of every input value. [default: 0]"""
    high: Annotated[float | None, Parameter(group=_what)] = None
    """Upper bound of every input value. [default: 1]"""
    suite: Annotated[str | None, Parameter(group=_what)] = None
    """A suite, an attack, or a suite file; see `brinell suites`. [default: brinell]"""
    outputs: Annotated[
        Literal["logits", "probabilities", "binary-logit", "logits-and-reject"] | None, Parameter(group=_what)
    ] = None
    """What the model returns. [default: logits]"""
    scale: Annotated[float | None, Parameter(group=_what)] = None
    """Divide the inputs by this first (255 for pixels). [default: 1]"""
    layout: Annotated[Literal["as-is", "channels-last"] | None, Parameter(group=_what)] = None
    """How the inputs' axes are ordered. [default: as-is]"""
    seed: Annotated[int | None, Parameter(group=_how)] = None
    """Of all random numbers in the attacks. [default: 0]"""
    device: Annotated[str | None, Parameter(group=_how)] = None
    """cpu, cuda, cuda:1. [default: cpu]"""
    budget: Annotated[str | None, Parameter(group=_how)] = None
    """What may be spent: 500/row, 2M passes in all, 30min. [default: what the suite asks for]"""
    batch_size: Annotated[int | None, Parameter(group=_how)] = None
    """Rows in a batch; measured where it is not given."""

    def overrides(self) -> dict[str, Any]:
        """The options as a spec file would say them."""
        return {
            "model": _said(source=self.model, outputs=self.outputs, device=self.device),
            "data": _said(source=self.data, rows=self.rows, scale=self.scale, layout=self.layout),
            "threat": _said(norm=self.norm, eps=self.eps, low=self.low, high=self.high),
            "suite": self.suite,
            "seed": self.seed,
            "budget": self.budget,
            "batch_size": self.batch_size,
        }


def _said(**options: object) -> dict[str, object]:
    return {name: value for name, value in options.items() if value is not None}


NO_OPTIONS = Options()


@app.command
def run(
    spec: Path | None = None,
    /,
    *,
    options: Options = NO_OPTIONS,
    out: Annotated[Path | None, Parameter(group=_how)] = None,
    resume: Annotated[Path | None, Parameter(group=_how)] = None,
    quiet: Annotated[bool, Parameter(group=_how)] = False,
    json: Annotated[bool, Parameter(group=_how)] = False,
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
        if spec is not None or out is not None or options != NO_OPTIONS:
            raise BadInput("--resume", got="other options beside it", expected="the folder alone", remedy="Drop them.")
        reading, folder = _gone_on_with(resume, errors, quiet=quiet or json), resume
    else:
        asked = _spec(spec, options)
        subject, folder = _subject(asked), out or _free_folder(asked)
        reading = _carried_out(_begun(subject, folder), errors, quiet=quiet or json)
    (as_json if json else as_text)(reading)
    if reading.manifest.cut and not reading.figures.complete:
        errors.print(f"The budget was spent before every row was attacked. The record is in {folder}.", soft_wrap=True)
        return EXIT_INCOMPLETE
    if not reading.figures.complete:
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

    (plan_as_json if json else plan_as_text)(plan_of(_subject(_spec(spec, options))))
    return EXIT_DONE


@app.command
def verify(
    folder: Path,
    /,
    *,
    model: str | None = None,
    data: str | None = None,
    files_only: bool = False,
    json: bool = False,
) -> int:
    """Check a run again from its own files, then every witness with the model.

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
    json
        Print the findings as JSON.
    """
    from brinell.assemble import loaded_from
    from brinell.checks.finding import Finding
    from brinell.report.show import findings_as_json, findings_as_text
    from brinell.verify import verify_files, verify_with_model

    findings = verify_files(folder)
    if not files_only:
        try:
            loaded = loaded_from(_recorded_spec(folder, model, data))
        except BadInput as error:
            findings.append(Finding("model and data", None, f"{error} Name them with --model and --data."))
        else:
            findings += verify_with_model(folder, loaded.model, loaded.rows)
    (findings_as_json if json else findings_as_text)(findings)
    return EXIT_VERIFICATION_FAILED if any(finding.holds is False for finding in findings) else EXIT_DONE


@app.command(name="import")
def import_(
    tool: Literal["arrays", "foolbox", "art", "autoattack", "torchattacks"],
    /,
    *files: Path,
    options: Options = NO_OPTIONS,
    out: Annotated[Path | None, Parameter(group=_how)] = None,
    quiet: Annotated[bool, Parameter(group=_how)] = False,
    json: Annotated[bool, Parameter(group=_how)] = False,
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

    if out is not None and format != "html":
        raise BadInput(
            "--out", got=f"--format {format}", expected="--format html", remedy="Drop it, and use the shell's >."
        )
    reading = read_run(folder)
    shown = {"text": as_text, "json": as_json, "markdown": as_markdown, "latex": as_latex}
    shown |= {"robustbench": as_robustbench, "model-card": as_model_card}
    if format == "html":
        as_html(reading, out)
    else:
        shown[format](reading)
    return EXIT_DONE if reading.figures.complete else EXIT_INCOMPLETE


@app.command
def certify(
    folder: Path,
    /,
    *,
    seconds: Annotated[float, Parameter(validator=validators.Number(gt=0))] = 20.0,
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

    _, errors = consoles(quiet=quiet or json)
    subject = _subject(_recorded_spec(folder, model, data))
    with interrupts(errors) as stopped:
        reading = certify_run(subject, folder, seconds=seconds, told=_counting(errors), stop=stopped)
    (as_json if json else as_text)(reading)
    return EXIT_DONE


def _counting(errors: Console) -> "Callable[[int, int, int], None]":
    """A line where the terminal shows one, rewritten row by row."""

    def told(asked: int, of: int, proved: int) -> None:
        if errors.is_terminal:
            errors.print(f"{asked} of {of} rows asked, {proved} certified", end="\r" if asked < of else "\n")

    return told


@app.command
def doctor(
    spec: Path | None = None, /, *, options: Options = NO_OPTIONS, planted: bool = False, json: bool = False
) -> int:
    """Say before an attack what is wrong with model, data and threat model; attacks nothing.

    Parameters
    ----------
    spec
        A TOML file that says what is evaluated; options override it.
    planted
        Plant adversarial examples behind the model on 16 rows, and see whether the suite finds them; takes minutes.
    json
        Print the checks as JSON.
    """
    from brinell.doctor import examined

    subject = _subject(_spec(spec, options))
    diagnoses = examined(subject)
    if planted:
        from brinell.planted import planted_examples

        diagnoses = (*diagnoses, planted_examples(subject))
    return _diagnosed(diagnoses, json=json)


@app.command
def diagnose(folder: Path, /, *, json: bool = False) -> int:
    """Say whether a run's figure can be trusted: what speaks against it, what that means, and what to do next.

    Parameters
    ----------
    folder
        The run's folder.
    json
        Print the checks as JSON.
    """
    from brinell.result import read_run

    return _diagnosed(read_run(folder).diagnoses, json=json)


def _diagnosed(diagnoses: "tuple[Diagnosis, ...]", *, json: bool) -> int:
    from brinell.report.findings import diagnoses_as_json, diagnoses_as_text

    (diagnoses_as_json if json else diagnoses_as_text)(diagnoses)
    return EXIT_OPEN if any(diagnosis.open for diagnosis in diagnoses) else EXIT_DONE


@app.command
def compare(
    *sources: str,
    robustbench: Path | None = None,
    json: bool = False,
) -> int:
    """Say what follows from two claims, and what does not; of more than two, which are comparable at all.

    Parameters
    ----------
    sources
        The folder of a run, a claim (.toml or .json), or robustbench:DATASET/THREAT/MODEL; two or more.
    robustbench
        The folder model_info of a checkout of RobustBench's repository. [default: $BRINELL_ROBUSTBENCH]
    json
        Print the verdict as JSON.
    """
    from brinell.claims.compare import compare as compared
    from brinell.claims.groups import grouped
    from brinell.claims.sources import account_from
    from brinell.report import claims as shown

    if len(sources) < 2 or len({os.path.realpath(source) for source in sources}) < len(sources):
        raise BadInput(
            "compare",
            got=" ".join(sources) or "nothing",
            expected="two sources or more, each once",
            remedy="Name them.",
        )
    accounts = [account_from(source, robustbench) for source in sources]
    if len(accounts) > 2:
        groups = grouped(accounts)
        (shown.groups_as_json if json else shown.groups_as_text)(groups)
        followed = any(verdict.better is not None for group in groups for verdict in group.against_first)
        return EXIT_DONE if followed else EXIT_OPEN
    verdict = compared(*accounts)
    (shown.verdict_as_json if json else shown.verdict_as_text)(verdict)
    return EXIT_OPEN if verdict.better is None else EXIT_DONE


@app.command
def check(
    source: str | None = None,
    /,
    *,
    robustbench: Path | None = None,
    schema: bool = False,
    json: bool = False,
) -> int:
    """Ask of a claim what a reader must ask: each question answered, or missing, and what cannot be concluded.

    Parameters
    ----------
    source
        A claim from a paper or a slide (.toml or .json), the folder of a run, or robustbench:DATASET/THREAT/MODEL.
    robustbench
        The folder model_info of a checkout of RobustBench's repository. [default: $BRINELL_ROBUSTBENCH]
    schema
        Print the JSON Schema of a claim instead.
    json
        Print the answers as JSON.
    """
    from brinell.report import claims as shown

    if schema:
        shown.schema_as_json()
        return EXIT_DONE
    if source is None:
        raise BadInput("check", got="nothing", expected="a claim, a run or an entry", remedy="Name it.")
    from brinell.claims.sources import account_from

    claim = account_from(source, robustbench).claim
    return EXIT_DONE if (shown.questions_as_json if json else shown.questions_as_text)(source, claim) else EXIT_OPEN


@app.command
def selftest(
    *,
    suite: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    only: Annotated[tuple[str, ...], Parameter(consume_multiple=True)] = (),
    rows: int | None = None,
    all: bool = False,
    list: bool = False,
    json: bool = False,
) -> int:
    """Attack defences whose true robust accuracy is known, and say how near to it a suite's figures are.

    Parameters
    ----------
    suite
        Suites, each for the defences that it is meant for. [default: brinell autoattack-rand]
    only
        Defences by name. [default: the quick ones]
    rows
        How many rows of each, up to 400. [default: 40]
    all
        Every defence.
    list
        Say what the defences are instead; attacks nothing.
    json
        Print the verdicts as JSON.
    """
    from brinell import selftest as test
    from brinell.defences.catalogue import defences, defences_named
    from brinell.report import selftest as shown

    if list:
        shown.defences_as_text(defences_named(only) if only else defences())
        return EXIT_DONE
    trials = test.trials(only, suite or test.SUITES, rows=test.ROWS if rows is None else rows, everything=all)
    ended = (shown.trials_as_json if json else shown.trials_as_text)(trials)
    return EXIT_VERIFICATION_FAILED if any(trial.outcome == "below the truth" for trial in ended) else EXIT_DONE


@app.command
def models() -> int:
    """List the built-in models, a line each."""
    from brinell import zoo

    cards = [zoo.card(name) for name in zoo.names()]
    _list(
        ("model", "clean", "threat", "what it is"),
        [
            (
                f"builtin:{card.name}",
                f"{card.clean_correct}/{card.clean_rows}",
                f"{card.norm} {card.eps:g}",
                card.description,
            )
            for card in cards
        ],
    )
    return EXIT_DONE


@app.command
def suites(*, show: str | None = None) -> int:
    """List the suites, a line each; any attack's name is a suite too.

    Parameters
    ----------
    show
        Print one suite whole, as a file to start your own from.
    """
    from brinell.suites.suite import load_suite, suite_names

    if show is not None:
        import tomli_w

        print(tomli_w.dumps(load_suite(show).table()), end="")
        return EXIT_DONE
    lines: list[tuple[str, ...]] = []
    for suite in map(load_suite, suite_names()):
        costs = {norm: suite.within(norm).passes() for norm in suite.norms()}
        for cost in dict.fromkeys(costs.values()):
            norms = ", ".join(norm for norm in costs if costs[norm] == cost)
            lines.append(
                (f"{suite.name} v{suite.version}", norms, f"{cost.forwards:,} + {cost.backwards:,}", suite.summary)
            )
    _list(("suite", "norms", "passes a standing row", "what it is"), lines)
    return EXIT_DONE


@app.command
def attacks() -> int:
    """List the attacks, a line each."""
    from brinell.attacks.catalogue import ATTACKS

    _list(
        ("attack", "norms", "what it is"),
        [(name, ", ".join(kind.norms), kind.summary) for name, kind in ATTACKS.items()],
    )
    return EXIT_DONE


def consoles(*, quiet: bool = False) -> tuple[Console, Console]:
    """Where results go, and where messages go."""
    # names of files and models are shown as they are, whatever brackets they hold
    return (
        Console(highlight=False, markup=False),
        Console(highlight=False, markup=False, stderr=True, quiet=quiet),
    )


def _list(header: tuple[str, ...], lines: list[tuple[str, ...]]) -> None:
    """Columns as wide as they need to be; the terminal wraps what is longer than it."""
    widths = [max(len(line[place]) for line in (header, *lines)) for place in range(len(header))]
    console, _ = consoles()
    for number, line in enumerate((header, *lines)):
        text = "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        console.print(text, style="dim" if number == 0 else None, soft_wrap=True)


def _spec(path: Path | None, options: Options) -> "Spec":
    from brinell.spec import read_spec

    return read_spec(path, options.overrides())


def _subject(spec: "Spec") -> "Subject":
    from brinell.assemble import subject_from

    return subject_from(spec)


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
    return _carried_out(resume(_subject(_recorded_spec(folder, None, None)), folder), errors, quiet=quiet)


def _recorded_spec(folder: Path, model: str | None, data: str | None) -> "Spec":
    from brinell.manifest import read_manifest
    from brinell.spec import spec_beside

    return spec_beside(read_manifest(folder).spec, str(folder), model=model, data=data)


def _carried_out(opened: "Run", errors: Console, *, quiet: bool) -> "Reading":
    from brinell.evaluation import finish
    from brinell.progress import shown_on

    with interrupts(errors) as stopped, shown_on(errors, quiet=quiet) as observer:
        return finish(opened, observer, stop=stopped)


@contextmanager
def interrupts(errors: Console) -> Iterator[Callable[[], bool]]:
    """Whether the user has asked to stop. The first Ctrl-C lets the batch in flight end; the second kills."""
    import signal

    asked: list[int] = []

    def ask(number: int, frame: object) -> None:
        if asked:
            os._exit(EXIT_KILLED_BY_SECOND_INTERRUPT)
        asked.append(number)
        errors.print("Stopping after this batch; what was found is kept. Once more to kill.")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _version() -> str:
    from brinell import __version__

    return __version__


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
