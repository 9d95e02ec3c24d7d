"""What the commands have in common: the app, the options, where things are printed, how runs are stopped."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Group, Parameter
from rich.console import Console

from brinell.certify.steps import Step
from brinell.errors import EXIT_KILLED_BY_SECOND_INTERRUPT

if TYPE_CHECKING:
    from brinell.spec import Spec
    from brinell.subject import Subject

EXIT_CODES = """Exit codes: 0 done · 2 bad input, nothing was attacked · 3 run incomplete, go on with --resume ·
4 verification or self-test failed, or a property is violated · 5 the model failed ·
6 nothing follows, a property is unknown, fields are missing, or checks are open ·
130 killed by a second Ctrl-C."""

app = App(
    name="brinell",
    help="Robustness numbers that can be believed: attack a classifier, keep the record, print figures with their counts.",
    help_epilogue=EXIT_CODES,
    version=lambda: _version(),
    default_parameter=Parameter(negative=()),
    result_action="return_value",
)
WHAT = Group("What is evaluated", sort_key=1)
HOW = Group("How", sort_key=2)


@Parameter(name="*")
@dataclass(frozen=True)
class Target:
    """What is evaluated, and where; each option overrides the spec file."""

    model: Annotated[str | None, Parameter(group=WHAT)] = None
    """builtin:NAME, net.onnx, file.py:function or package.module:name. [default: builtin:fmnist-at]"""
    data: Annotated[str | None, Parameter(group=WHAT)] = None
    """builtin:fmnist, an .npz file with x and y, or file.py:function that returns (x, y)."""
    rows: Annotated[str | None, Parameter(group=WHAT)] = None
    """all, a slice 0:1000, or a list 3,17,5:9. [default: all]"""
    norm: Annotated[str | None, Parameter(group=WHAT)] = None
    """linf, l2 or l1."""
    eps: Annotated[str | None, Parameter(group=WHAT)] = None
    """Radius in input units: a decimal, or a fraction such as 8/255."""
    low: Annotated[float | None, Parameter(group=WHAT)] = None
    """Lower bound of every input value. [default: 0]"""
    high: Annotated[float | None, Parameter(group=WHAT)] = None
    """Upper bound of every input value. [default: 1]"""
    outputs: Annotated[
        Literal["logits", "probabilities", "binary-logit", "logits-and-reject"] | None, Parameter(group=WHAT)
    ] = None
    """What the model returns. [default: logits]"""
    scale: Annotated[float | None, Parameter(group=WHAT)] = None
    """Divide the inputs by this first (255 for pixels). [default: 1]"""
    layout: Annotated[Literal["as-is", "channels-last"] | None, Parameter(group=WHAT)] = None
    """How the inputs' axes are ordered. [default: as-is]"""
    seed: Annotated[int | None, Parameter(group=HOW)] = None
    """Of all random numbers. [default: 0]"""
    device: Annotated[str | None, Parameter(group=HOW)] = None
    """cpu, cuda, cuda:1. [default: cpu]"""
    batch_size: Annotated[int | None, Parameter(group=HOW)] = None
    """Rows in a batch; measured where it is not given."""

    def overrides(self) -> dict[str, Any]:
        """The options as a spec file would say them."""
        return {
            "model": _said(source=self.model, outputs=self.outputs, device=self.device),
            "data": _said(source=self.data, rows=self.rows, scale=self.scale, layout=self.layout),
            "threat": _said(norm=self.norm, eps=self.eps, low=self.low, high=self.high),
            "seed": self.seed,
            "batch_size": self.batch_size,
        }


@Parameter(name="*")
@dataclass(frozen=True)
class Options(Target):
    """How it is attacked besides."""

    suite: Annotated[str | None, Parameter(group=WHAT)] = None
    """A suite, an attack, or a suite file; see `brinell suites`. [default: brinell]"""
    surrogate: Annotated[str | None, Parameter(group=WHAT)] = None
    """Another model, named likewise, on which points are made that are proposed to this one."""
    budget: Annotated[str | None, Parameter(group=HOW)] = None
    """What may be spent: 500/row, 2M passes in all, 30min. [default: what the suite asks for]"""
    certify: Annotated[Step | None, Parameter(group=HOW)] = None
    """Seek a certificate for each row before the attacks, up to this step; rows that are settled get no attack."""
    certify_seconds: Annotated[float | None, Parameter(group=HOW)] = None
    """About how long a row's certificate may take. [default: 20]"""

    def overrides(self) -> dict[str, Any]:
        """The options as a spec file would say them."""
        return {
            **super().overrides(),
            "surrogate": {} if self.surrogate is None else _said(source=self.surrogate, device=self.device),
            "suite": self.suite,
            "budget": self.budget,
            "certify": _said(method=self.certify, seconds=self.certify_seconds),
        }


def _said(**options: object) -> dict[str, object]:
    return {name: value for name, value in options.items() if value is not None}


def named(options: object) -> list[str]:
    """The options of a group that were given, as the command line has them: ``["--eps", "--batch-size"]``."""
    given = {field.name: getattr(options, field.name) for field in fields(options)}  # type: ignore[arg-type]  # dataclass
    return [f"--{name.replace('_', '-')}" for name, value in given.items() if value is not None]


NO_OPTIONS = Options()
NO_TARGET = Target()


def consoles(*, quiet: bool = False) -> tuple[Console, Console]:
    """Where results go, and where messages go."""
    # names of files and models are shown as they are, whatever brackets they hold
    return (
        Console(highlight=False, markup=False),
        Console(highlight=False, markup=False, stderr=True, quiet=quiet),
    )


def print_list(header: tuple[str, ...], lines: list[tuple[str, ...]]) -> None:
    """Columns as wide as they need to be; the terminal wraps what is longer than it."""
    widths = [max(len(line[place]) for line in (header, *lines)) for place in range(len(header))]
    console, _ = consoles()
    for number, line in enumerate((header, *lines)):
        text = "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        console.print(text, style="dim" if number == 0 else None, soft_wrap=True)


def spec_from(path: Path | None, options: Target) -> "Spec":
    """What a file and the options over it ask for."""
    from brinell.spec import read_spec

    return read_spec(path, options.overrides())


def subject_from(spec: "Spec") -> "Subject":
    """What a spec names, loaded."""
    from brinell import assemble

    return assemble.subject_from(spec)


def recorded_spec(folder: Path, model: str | None, data: str | None) -> "Spec":
    """What a run was made from, with model and data taken from elsewhere where that is said."""
    from brinell.manifest import read_manifest
    from brinell.spec import spec_beside

    return spec_beside(read_manifest(folder).spec, str(folder), model=model, data=data)


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
