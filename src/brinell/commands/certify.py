"""The command that proves: which rows have no witness at all."""

import os
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter, validators
from rich.console import Console

from brinell.certify.steps import Step
from brinell.commands.app import HOW, NO_TARGET, Target, app, consoles, interrupts, named, recorded_spec, subject_from
from brinell.commands.smoothing import NO_SMOOTHING, SmoothingOptions, certified_smoothed, refuse_smoothing_options
from brinell.errors import EXIT_DONE, EXIT_INCOMPLETE, EXIT_OPEN, EXIT_VERIFICATION_FAILED, BadInput

if TYPE_CHECKING:
    from brinell.result import Reading
    from brinell.spec import CertifySpec

SECONDS = 20.0
"""A row, or a property, may take about so long where nothing is said."""
ELSEWHERE = ("model", "data")
"""Options that mean something beside the folder of a run: where its model and its data are now."""


@app.command
def certify(
    source: Path | None = None,
    /,
    *,
    options: Target = NO_TARGET,
    smoothing: SmoothingOptions = NO_SMOOTHING,
    method: Annotated[Literal[Step, "smoothing"] | None, Parameter(group=HOW)] = None,
    seconds: Annotated[float | None, Parameter(group=HOW, validator=validators.Number(gt=0, lt=10**9))] = None,
    vnnlib: Annotated[Path | None, Parameter(group=HOW)] = None,
    out: Annotated[Path | None, Parameter(group=HOW)] = None,
    resume: Annotated[Path | None, Parameter(group=HOW)] = None,
    quiet: Annotated[bool, Parameter(group=HOW)] = False,
    json: Annotated[bool, Parameter(group=HOW)] = False,
) -> int:
    """Prove, where that can be done, that rows have no witness: rows left standing by a run's attacks, or any model's.

    Given a run's folder, certificates are added to its record; given a model, data and a radius, or a spec file, a run
    without attacks is made. Rows that are certified already are not asked again.

    Parameters
    ----------
    source
        The folder of a run, or a TOML file that says what is evaluated. Beside a folder, --model and --data say where these
        are if not where the run says.
    method
        The dearest step that a row may be given: interval, crown, slopes, layers, cells or branch. [default: branch] Or
        smoothing: another classifier is certified, the smoothed one, in L2; with --eps it is attacked too.
    seconds
        About how long one row may take. [default: 20]
    vnnlib
        A property of --model net.onnx to decide instead: holds, violated (exit code 4) or unknown (6).
    out
        Folder of the new run [default: runs/…, named after what is run]; of a property, a new file for its witness.
    resume
        Go on with what was cut off in this folder; takes no other options.
    quiet
        No progress.
    json
        Print the result as JSON.
    """
    from brinell.report.show import as_json, as_text
    from brinell.smoothing.folder import holds_smoothing

    if resume is not None and source is None and method != "smoothing" and not holds_smoothing(resume):
        _refuse_beside_resume(options, smoothing, method, seconds, out, vnnlib)
        source, resume = resume, None  # a run, which is gone on with
    if method == "smoothing" or resume is not None:
        if vnnlib is not None:
            raise BadInput("--vnnlib", got="a property", expected="rows", remedy="Drop it, or --method smoothing.")
        others = named(smoothing) + ([] if method is None else ["--method"])
        paths = source if resume is None else resume
        return certified_smoothed(
            paths, options, smoothing, seconds, out, resumed=resume is not None, others=others, quiet=quiet, json=json
        )
    refuse_smoothing_options(smoothing)
    if vnnlib is not None:
        return _decided(vnnlib, source, options, out, method, seconds, quiet=quiet, json=json)
    _, errors = consoles(quiet=quiet)
    shown = consoles(quiet=quiet or json)[1]
    if source is not None and source.suffix != ".toml":
        reading = _added(source, options, out, method, seconds, shown)
    elif source is None and options == NO_TARGET:
        raise BadInput(
            "certify",
            got="nothing",
            expected="a run, or a model",
            remedy="Name a run's folder, or state --model, --data, --norm and --eps.",
        )
    else:
        reading = _alone(source, options, out, method, seconds, shown)
    (as_json if json else as_text)(reading)
    folder = shlex.quote(str(reading.folder))
    if reading.manifest.state != "complete":
        errors.print(f"The run is incomplete. Go on with: brinell certify {folder}", soft_wrap=True)
        return EXIT_INCOMPLETE
    errors.print(f"The record is in {folder}. Check it with: brinell verify {folder}", soft_wrap=True)
    return EXIT_DONE


def _refuse_beside_resume(
    options: Target,
    smoothing: SmoothingOptions,
    method: str | None,
    seconds: float | None,
    out: Path | None,
    vnnlib: Path | None,
) -> None:
    """Refuse whatever stands beside the folder of a run that is to be gone on with as it was begun."""
    further = {"--method": method, "--seconds": seconds, "--out": out, "--vnnlib": vnnlib}
    others = named(options) + named(smoothing) + [name for name, value in further.items() if value is not None]
    if others:
        raise BadInput(
            "--resume",
            got=f"{', '.join(others)} beside it",
            expected="the folder alone",
            remedy="Drop them; to ask for more, name the folder without --resume.",
        )


def _asked(method: Step | None, seconds: float | None, said: "CertifySpec | None" = None) -> "CertifySpec":
    """What the options say, over what a spec file says."""
    from brinell.spec import CertifySpec

    before = said or CertifySpec(method="branch", seconds=SECONDS)
    return CertifySpec(method=method or before.method, seconds=seconds or before.seconds)


def _added(
    folder: Path, options: Target, out: Path | None, method: Step | None, seconds: float | None, shown: Console
) -> "Reading":
    """Certificates for a run that there is; one that sought nothing else is gone on with where it was cut off."""
    from brinell.certifying import certify_run
    from brinell.manifest import read_manifest

    others = named(replace(options, **dict.fromkeys(ELSEWHERE))) + ([] if out is None else ["--out"])
    if others:
        raise BadInput(
            "certify",
            got=f"{', '.join(others)} beside the folder of a run",
            expected="the folder, and where model and data are",
            remedy="Drop it: the run says what it is of.",
        )
    manifest = read_manifest(folder)
    subject = subject_from(recorded_spec(folder, options.model, options.data))
    if manifest.state != "complete" and not manifest.suite["attacks"] and method is None and seconds is None:
        from brinell.finishing import finish
        from brinell.opening import resume
        from brinell.progress import shown_on

        with interrupts(shown) as stopped, shown_on(shown, quiet=False) as observer:
            return finish(resume(subject, folder), observer, stop=stopped)
    with interrupts(shown) as stopped:
        asked = _asked(method, seconds)
        return certify_run(subject, folder, asked=asked, told=_counting(shown), stop=stopped)


def _alone(
    spec: Path | None, options: Target, out: Path | None, method: Step | None, seconds: float | None, shown: Console
) -> "Reading":
    """A run that seeks certificates and makes no attack."""
    from brinell.assemble import free_folder
    from brinell.finishing import finish
    from brinell.opening import begin
    from brinell.progress import shown_on
    from brinell.spec import read_spec
    from brinell.suites.suite import NONE

    said = read_spec(spec, {**options.overrides(), "suite": NONE})
    asked = said.model_copy(
        update={"certify": _asked(method, seconds, said.certify), "budget": None, "surrogate": None}
    )
    run = begin(subject_from(asked), out or free_folder(asked))
    with interrupts(shown) as stopped, shown_on(shown, quiet=False) as observer:
        return finish(run, observer, stop=stopped)


def _decided(
    path: Path,
    source: Path | None,
    options: Target,
    out: Path | None,
    method: Step | None,
    seconds: float | None,
    *,
    quiet: bool,
    json: bool,
) -> int:
    """Whether a property of an ONNX net holds, as the exit code."""
    from brinell.assemble import is_onnx
    from brinell.certify import onnx_net, vnnlib
    from brinell.certify.decide import decide
    from brinell.report.verdict import reason, verdict_as_json, verdict_as_text

    others = [] if source is None else [str(source)]
    others += ([] if method is None else ["--method"]) + named(replace(options, model=None))
    if others:
        raise BadInput(
            "certify --vnnlib",
            got=f"{', '.join(others)} beside it",
            expected="--model net.onnx, --seconds, --out, --json, --quiet",
            remedy="Drop them: the property says where it is asked for.",
        )
    if options.model is None or not is_onnx(options.model):
        raise BadInput(
            "--model",
            got=options.model or "nothing",
            expected="an ONNX file",
            remedy="Export the net with torch.onnx.export.",
        )
    if out is not None:
        _refuse_unwritable(out)
    net, asked = onnx_net.read(Path(options.model)), vnnlib.read(path)
    verdict = decide(net, asked, seconds=seconds or SECONDS)
    consoles(quiet=quiet)[1].print(f"{options.model}, {path}: {reason(verdict)}", soft_wrap=True)
    (verdict_as_json if json else verdict_as_text)(verdict, out)
    return {"holds": EXIT_DONE, "violated": EXIT_VERIFICATION_FAILED, "unknown": EXIT_OPEN}[verdict.answer]


def _refuse_unwritable(out: Path) -> None:
    """Refuse a file for the witness that cannot be made, before anything is searched for."""
    got = "a file" if out.exists() else None
    if not out.parent.is_dir():
        got = f"no folder {out.parent}"
    elif not os.access(out.parent, os.W_OK):
        got = f"{out.parent}, which may not be written to"
    if got is not None:
        raise BadInput(
            f"output file {out}",
            got=got,
            expected="a new file in a folder that is there",
            remedy="Name another with --out.",
        )


def _counting(shown: Console) -> Callable[[int, int, int], None]:
    """A line where the terminal shows one, rewritten row by row."""

    def told(asked: int, of: int, proved: int) -> None:
        if shown.is_terminal:
            shown.print(f"{asked} of {of} rows asked, {proved} certified", end="\r" if asked < of else "\n")

    return told
