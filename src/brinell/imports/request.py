"""What `brinell import` was asked for: a tool, files, and the options that say what they are of."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brinell.arrays import JOINED
from brinell.assemble import loaded_from
from brinell.budget import Budget
from brinell.errors import BadInput
from brinell.imports.account import Imported
from brinell.imports.importing import Import, prepared, unjudged
from brinell.imports.source import Source, source_of
from brinell.rows import load_rows
from brinell.spec import Spec, read_spec
from brinell.subject import Subject
from brinell.suites.suite import IMPORTED, Suite
from brinell.threat import Threat

UNUSED = ("suite", "seed", "budget", "certify")
"""What can be said of a run but not of an import, which draws nothing and tries every point."""


@dataclass(frozen=True, eq=False)
class Request:
    """One import, read from files and options."""

    source: Source
    options: dict[str, Any]
    """Nested like a spec file."""
    files: tuple[Path, ...]

    @property
    def data(self) -> str | None:
        """The data, where they were named apart from the file."""
        named: str | None = self.options["data"].get("source")
        return named

    def spec(self) -> Spec:
        """What the run is made from. Where no data are named they are the file's, read as the file is."""
        data = self.options["data"]
        if self.data is None:
            data = {**data, "source": JOINED.join(map(str, self.files))}
        else:  # scale and layout are the file's
            data = {key: value for key, value in data.items() if key in ("source", "rows")}
        return read_spec(None, {**self.options, "data": data, "suite": f"{IMPORTED}{self.source.tool}"})

    def prepared(self) -> Import:
        """The import, ready to begin.

        Raises
        ------
        BadInput
            If something cannot be had or does not fit together.
        """
        spec = self.spec()
        threat = Threat(spec.threat.norm, spec.threat.eps, low=spec.threat.low, high=spec.threat.high)
        loaded = loaded_from(spec)
        subject = Subject(
            model=loaded.model,
            model_source=spec.model.source,
            rows=loaded.rows,
            threat=threat,
            suite=Suite(name=spec.suite, version="0", summary="", attacks=()),
            seed=spec.seed,
            batch_size=spec.batch_size,
            budget=None if spec.budget is None else Budget(spec.budget),
            spec=spec,
        )
        return prepared(self.source, subject, apart=self.data is not None)

    def unjudged(self) -> Imported:
        """What can be said without a model.

        Raises
        ------
        BadInput
            If norm or radius are missing, or the file does not fit.
        """
        said = self.options["threat"]
        if not {"norm", "eps"} <= set(said):
            raise BadInput(
                "threat",
                got=f"only {', '.join(said)}" if said else "nothing",
                expected="a norm and a radius",
                remedy="State it with --norm and --eps, for example --norm linf --eps 8/255.",
            )
        rows = None if self.data is None else load_rows(self.data, self.options["data"].get("rows", "all"))
        return unjudged(self.source, Threat(**said), rows)


def requested(tool: str, files: Sequence[Path], options: dict[str, Any]) -> Request:
    """What options, nested like a spec file, ask for.

    Raises
    ------
    BadInput
        If there is no file, one cannot be read, or an option has no meaning for an import.
    """
    for name in UNUSED:
        if options.get(name) not in (None, {}):
            raise BadInput(
                f"--{name}", got=str(options[name]), expected="nothing: an import tries every point", remedy="Drop it."
            )
    if not files:
        raise BadInput("files", got="none", expected="at least one", remedy="Name the file that holds the points.")
    how = {key: options["data"][key] for key in ("scale", "layout") if key in options["data"]}
    return Request(source_of(tool, files, **how), options, tuple(files))
