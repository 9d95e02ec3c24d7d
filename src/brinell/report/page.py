"""The result as one HTML page that needs nothing but itself: no network, no fonts, no other file."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from brinell.diagnose.diagnosis import outcome_of
from brinell.errors import BadInput
from brinell.report import sections
from brinell.report.certified import COLUMNS, between, bounds, certificate_lines
from brinell.report.chart import drawn
from brinell.report.citations import papers_of
from brinell.report.coverage import not_covered
from brinell.report.curves import charts_of
from brinell.report.embedded import MOST_ROWS, as_script, embedded
from brinell.report.imported import head_line
from brinell.report.pictures import Pictures, pictures_of
from brinell.report.repeating import command_of, reproduction_facts
from brinell.report.text import stage_columns
from brinell.result import Reading
from brinell.spec import written

if TYPE_CHECKING:
    from markupsafe import Markup

HERE = Path(__file__).parent
PAGE = "report.html"
"""Its name in the run's folder."""


def html_page(reading: Reading) -> str:
    """The whole page. Text of other people's (names of models, data, suites, reasons) stays text."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    jinja = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    manifest, pictures = reading.manifest, pictures_of(reading)
    ran = [
        settings["attack"]
        for settings, stage in zip(manifest.suite["attacks"], reading.figures.stages, strict=True)
        if stage.given
    ]
    return jinja.get_template("page.html").render(
        css=_own("page.css"),
        js=_own("page.js"),
        data=Markup(as_script(embedded(reading, pictures))),  # escaped for a script element there
        reading=reading,
        outcome=outcome_of(reading.diagnoses),
        manifest=manifest,
        imported_from="" if manifest.imported is None else head_line(manifest.imported),
        certified_by=certificate_lines(reading),
        between=between(reading),
        both=bounds(reading),
        bound_columns=COLUMNS,
        figures=reading.figures,
        say=sections,
        columns=stage_columns(reading),
        charts=[(chart, Markup(drawn(chart))) for chart in charts_of(reading)],  # escaped there
        gaps=not_covered(manifest, settled=reading.randomised is None and reading.figures.settled),
        papers=papers_of(manifest.suite["name"], ran),
        spec=None if manifest.spec is None else written(manifest.spec),
        command=None if manifest.spec is None else command_of(manifest.spec),
        agree=reproduction_facts(manifest),
        folder=shlex.quote(manifest.run),
        shown=min(len(reading.rows), MOST_ROWS),
        shots=() if pictures is None else pictures.first,
        about_pictures=_about(reading, pictures),
    )


def write_page(page: str, folder: Path, path: Path | None) -> None:
    """Write a page to a file, by default in the folder that it is about; its path is printed.

    Raises
    ------
    BadInput
        If the file cannot be written.
    """
    path = folder / PAGE if path is None else path
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise BadInput(
            f"page {path}", got=error.strerror or str(error), expected="a file to write", remedy="Name one with --out."
        ) from None
    print(path)


def _own(name: str) -> "Markup":
    """One of the page's own files, as it is."""
    from markupsafe import Markup

    return Markup((HERE / name).read_text("utf-8"))  # written here, by us


def _about(reading: Reading, pictures: Pictures | None) -> str:
    """How many rows have pictures, and why no more."""
    if pictures is None:
        broken = reading.figures.status["broken"]
        if not broken:
            return "No row is broken, so that there is no adversarial point to show."
        shape = " × ".join(map(str, reading.manifest.data["shape"]))
        return f"Rows of shape {shape} are not shown as pictures."
    many = f"The first {len(pictures.where):,} of" if len(pictures.where) < pictures.of else "All"
    rule = (
        ", in the order of the selection, as many as keep the page small," if len(pictures.where) < pictures.of else ""
    )
    return (
        f"{many} {pictures.of:,} broken rows{rule} have pictures; of rows that were not broken the run's folder keeps no "
        "points. Pictures have 8 bits a value; the points themselves are in witnesses.npy and originals.npy."
    )
