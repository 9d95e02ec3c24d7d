"""How `certify`, `report` and `verify` go with smoothed classifiers."""

import shlex
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter
from rich.console import Console

from brinell.commands.app import Target, consoles, interrupts, named
from brinell.errors import EXIT_DONE, EXIT_INCOMPLETE, BadInput

if TYPE_CHECKING:
    from brinell.checks.finding import Finding
    from brinell.smoothing.folder import SmoothReading
    from brinell.smoothing.making import Asked
    from brinell.spec import Spec

SMOOTHING = Group("Randomized smoothing", sort_key=3)


@Parameter(name="*")
@dataclass(frozen=True)
class SmoothingOptions:
    """What is said of the noise; for ``--method smoothing`` alone."""

    sigma: Annotated[str | None, Parameter(group=SMOOTHING)] = None
    """Standard deviation of the noise, in input units: a decimal, or a fraction such as 64/255. Needed."""
    n: Annotated[int | None, Parameter(group=SMOOTHING)] = None
    """Noisy copies of a row from which it is certified. [default: 10000]"""
    n0: Annotated[int | None, Parameter(group=SMOOTHING)] = None
    """Other copies that choose the class. [default: 100]"""
    alpha: Annotated[float | None, Parameter(group=SMOOTHING)] = None
    """Probability with which a row's certificate may be false. [default: 0.001]"""


NO_SMOOTHING = SmoothingOptions()


def refuse_smoothing_options(said: SmoothingOptions) -> None:
    """Refuse options of smoothing where another method was asked for.

    Raises
    ------
    BadInput
        Naming the first.
    """
    for field in fields(said):
        if getattr(said, field.name) is not None:
            raise BadInput(
                f"--{field.name}",
                got=str(getattr(said, field.name)),
                expected="nothing without --method smoothing",
                remedy="Say --method smoothing, or drop it.",
            )


def certified_smoothed(
    path: Path | None,
    options: Target,
    said: SmoothingOptions,
    seconds: float | None,
    out: Path | None,
    *,
    resumed: bool,
    others: list[str],
    quiet: bool,
    json: bool,
) -> int:
    """Certify a smoothed classifier, or go on with the one in a folder, and print what came of it."""
    from brinell.report.smoothed import smoothing_as_json, smoothing_as_text

    _, errors = consoles(quiet=quiet)
    shown = consoles(quiet=quiet or json)[1]
    if resumed and path is not None:
        further = {"--out": out, "--seconds": seconds}
        others = named(options) + others + [name for name, value in further.items() if value is not None]
        reading = resume_smoothing(path, others=others, shown=shown)
    else:
        reading = smooth(path, options, said, seconds=seconds, out=out, shown=shown)
    (smoothing_as_json if json else smoothing_as_text)(reading)
    folder = shlex.quote(str(reading.folder))
    if not reading.figures.complete:
        errors.print(f"Rows are left. Go on with: brinell certify --resume {folder}", soft_wrap=True)
        return EXIT_INCOMPLETE
    errors.print(f"The record is in {folder}. Check it with: brinell verify {folder}", soft_wrap=True)
    return EXIT_DONE


def smooth(
    source: Path | None,
    options: Target,
    said: SmoothingOptions,
    *,
    seconds: float | None,
    out: Path | None,
    shown: Console,
) -> "SmoothReading":
    """Certify a smoothed classifier in a new folder; with an eps it is attacked too."""
    from brinell.smoothing.making import begin_smoothing

    if source is not None and source.suffix != ".toml":
        raise BadInput(
            "--method smoothing",
            got=f"the folder {source}",
            expected="a model and data, and a folder of its own",
            remedy="A run is of f; smoothing certifies another classifier, g. Name model and data, and --out.",
        )
    if seconds is not None:
        raise BadInput(
            "--seconds",
            got=f"{seconds:g}",
            expected="nothing with --method smoothing",
            remedy="Drop it; --n says how much work a row is.",
        )
    asked = _asked(_spec(source, options), said)
    folder = out or _free(asked)
    begin_smoothing(asked, folder)
    return _made(asked, folder, shown)


def resume_smoothing(folder: Path, *, others: list[str], shown: Console) -> "SmoothReading":
    """Go on where it was cut off; what is complete is read."""
    from brinell.smoothing.folder import read_smoothing

    if others:
        got = f"{', '.join(others)} beside it"
        raise BadInput("--resume", got=got, expected="the folder alone", remedy="Drop them.")
    reading = read_smoothing(folder)
    if reading.manifest.state == "complete":
        return reading
    setting = reading.manifest.setting
    said = SmoothingOptions(sigma=repr(setting.sigma), n=setting.n, n0=setting.n0, alpha=setting.alpha)
    return _made(_asked(_recorded(reading, None, None), said), folder, shown)


def report_smoothing(folder: Path, format: str, out: Path | None) -> int:
    """Print or write what a smoothed classifier's folder says."""
    from brinell.report.smoothed import smoothing_as_json, smoothing_as_text
    from brinell.report.smoothed_page import smoothing_as_html
    from brinell.report.smoothed_tables import smoothing_as_latex, smoothing_as_markdown
    from brinell.smoothing.folder import read_smoothing

    reading = read_smoothing(folder)
    shown = {"text": smoothing_as_text, "json": smoothing_as_json}
    shown |= {"markdown": smoothing_as_markdown, "latex": smoothing_as_latex}
    if format == "html":
        smoothing_as_html(reading, out)
    elif format in shown:
        shown[format](reading)
    else:
        raise BadInput(
            "--format",
            got=f"{format}, of a smoothed classifier",
            expected="text, json, markdown, latex or html",
            remedy="Certificates of g are no robust accuracy of f: quote the claim line.",
        )
    return EXIT_DONE if reading.figures.complete else EXIT_INCOMPLETE


def verify_smoothing(
    folder: Path, model: str | None, data: str | None, files_only: bool, seconds: float | None
) -> "list[Finding]":
    """All checks of a smoothed classifier's folder; without model or data one finding says so."""
    from brinell.assemble import loaded_from
    from brinell.checks.finding import Finding
    from brinell.smoothing.checks import verify_smoothing_files, verify_smoothing_with_model
    from brinell.smoothing.folder import read_smoothing

    if seconds is not None:
        raise BadInput(
            "--seconds",
            got="the folder of a smoothed classifier",
            expected="nothing: its noise is drawn again on some rows, whatever that takes",
            remedy="Drop it.",
        )
    found = verify_smoothing_files(folder)
    if files_only:
        return found
    try:
        loaded = loaded_from(_recorded(read_smoothing(folder), model, data))
    except BadInput as error:
        return [*found, Finding("model and data", None, f"{error} Name them with --model and --data.")]
    return [*found, *verify_smoothing_with_model(folder, loaded.model, loaded.rows)]


def _spec(source: Path | None, options: Target) -> "Spec":
    """What is asked for: always in L2; without an eps, 0, and no attack is made."""
    from brinell.smoothing.attack import refuse_other_balls
    from brinell.spec import read_spec
    from brinell.threat import Threat

    if options.norm is not None:
        refuse_other_balls(Threat(options.norm, 0))
    if source is not None:
        return read_spec(source, options.overrides())
    table = options.overrides()
    return read_spec(None, {**table, "threat": {"eps": "0", **table["threat"], "norm": "l2"}})


def _asked(spec: "Spec", said: SmoothingOptions) -> "Asked":
    from brinell.assemble import loaded_from
    from brinell.smoothing.making import BATCH_SIZE, Asked
    from brinell.smoothing.setting import Setting, sigma_of
    from brinell.threat import Threat

    if said.sigma is None:
        raise BadInput(
            "--sigma",
            got="nothing",
            expected="the standard deviation of the noise, in input units",
            remedy="State it, for example --sigma 0.25.",
        )
    counts = {name: value for name, value in asdict(said).items() if value is not None and name != "sigma"}
    setting = Setting(sigma=sigma_of(said.sigma), **counts)
    threat = Threat(spec.threat.norm, spec.threat.eps, low=spec.threat.low, high=spec.threat.high)
    loaded = loaded_from(spec)
    return Asked(
        model=loaded.model,
        model_source=spec.model.source,
        rows=loaded.rows,
        setting=setting,
        threat=threat,
        seed=spec.seed,
        batch_size=spec.batch_size or BATCH_SIZE,
        spec=spec,
    )


def _recorded(reading: "SmoothReading", model: str | None, data: str | None) -> "Spec":
    from brinell.spec import spec_beside

    return spec_beside(reading.manifest.spec, str(reading.folder), model=model, data=data)


def _free(asked: "Asked") -> Path:
    """A folder under ``runs/`` that says what is certified, and is not taken."""
    model = Path(asked.model_source.removeprefix("builtin:").replace(":", "-")).name.replace(".py", "")
    number = 1
    while (folder := Path("runs") / f"{model}-smoothing-{asked.setting.noise.replace('/', '-')}-{number}").exists():
        number += 1
    return folder


def _made(asked: "Asked", folder: Path, shown: Console) -> "SmoothReading":
    from brinell.smoothing.making import make

    def told(done: int, of: int, certified: int) -> None:
        if shown.is_terminal:
            shown.print(f"{done} of {of} rows done, {certified} certified", end="\r" if done < of else "\n")

    with interrupts(shown) as stopped:
        return make(asked, folder, told=told, stop=stopped)
