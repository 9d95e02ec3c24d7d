"""What is said of certificates, wherever a result is shown."""

from collections import Counter
from typing import NamedTuple

from brinell.certify.steps import STEPS
from brinell.claim import threat_of
from brinell.manifest import Certified
from brinell.metrics import Proportion, counted, in_seconds
from brinell.result import Reading

REFUSED = "refused"


class Bounds(NamedTuple):
    """The truth from both sides, on the run's own rows: one line of a table, as texts."""

    certified: str
    """Rows that are proved to have no witness, of all rows: the lower end."""
    standing: str
    """Rows without a witness, of all rows: the upper end."""
    unresolved: str
    """Rows in between, which are the width."""
    method: str
    norm: str
    eps: str


COLUMNS = ("certified, at least", "robust, at most", "unresolved", "certificates by", "norm", "eps")
"""What each field of ``Bounds`` is headed by."""


def bounds(reading: Reading) -> Bounds | None:
    """Both ends with their counts; None where no certificates were sought. A row that is both certified and broken: none."""
    about = reading.manifest.certified
    if about is None:
        return None
    rows, threat = reading.figures.rows, threat_of(reading.manifest)
    proved, open_ = reading.figures.status["certified"], reading.figures.unresolved
    ends = (_share(proved, rows), _share(proved + open_, rows), f"{open_:,}")
    if reading.refused is not None:
        ends = (ends[0] if not reading.contradicted else REFUSED, REFUSED, REFUSED)
    return Bounds(*ends, about.method, threat.norm.capitalize(), str(threat.eps))


def _share(count: int, rows: int) -> str:
    return f"{count:,}/{rows:,} = {100 * count / rows:.1f} %" if rows else "0/0"


def between(reading: Reading) -> str:
    """What lies between the bounds, as a sentence without its stop."""
    rows = reading.figures.unresolved
    if rows or reading.refused is not None:
        return f"unresolved in between: {counted(rows, 'row')}"
    return "no row is unresolved: both bounds meet, and the figure is the truth on these rows"


class UpperEnd(NamedTuple):
    """The upper bound of robust accuracy, by what it was measured with."""

    name: str
    by: str
    """What makes it a bound; empty where the name says so."""
    sign: str
    figure: Proportion


def upper_end(reading: Reading) -> UpperEnd:
    """Rows that the suite left standing; without attacks, those that the search for a proof did not break."""
    if not reading.attacked:
        return UpperEnd("not broken by the search for a proof", "", "≤", reading.figures.not_broken)
    figure = reading.figures.robust_accuracy
    return UpperEnd("robust accuracy", "empirical", "" if figure.undecided else "≤", figure)


def certified_figure(reading: Reading) -> tuple[str, str]:
    """The sign and the certified accuracy, or that none is given."""
    if reading.contradicted:
        return "", f"{REFUSED}: {reading.refused}"
    return "≥", str(reading.figures.certified_accuracy)


def certificate_lines(reading: Reading) -> list[str]:
    """How certificates were sought, what they prove, and what was settled before any attack; none where none were sought."""
    about = reading.manifest.certified
    if about is None:
        return []
    settled = Counter(record.step for record in reading.certificates if record.outcome == "certified")
    steps = ", ".join(f"{settled[step]:,} by {step}" for step in STEPS if settled[step])
    spent = in_seconds(sum(record.seconds for record in reading.certificates))
    searched = f"the search took {spent} on {counted(len(reading.certificates), 'row')}"
    lines = [_sought(about), f"certified: {steps or 'no row'}; {searched}"]
    return [*lines, _first(reading)] if about.first is not None else lines


def _sought(about: Certified) -> str:
    times = [f"by {asked.method}, about {asked.seconds:g} s a row at most" for asked in dict.fromkeys(about.asked)]
    return f"certificates {', then '.join(times)}: {about.proves}"


def _first(reading: Reading) -> str:
    asked = [record for record in reading.certificates if record.first or not reading.attacked]
    settled = [record.outcome for record in asked]
    proved, broken = settled.count("certified"), settled.count("violated")
    if not reading.attacked:
        return (
            f"no attack was made: {counted(proved, 'row')} {_be(proved, 'are')} certified, {broken:,} broken by the search for a "
            f"proof; {reading.figures.unresolved:,} {_be(reading.figures.unresolved, 'are')} unresolved"
        )
    return (
        f"before any attack {counted(proved, 'row')} {_be(proved, 'were')} certified and {broken:,} broken by the search for a "
        f"proof: no attack was spent on them"
    )


def _be(count: int, many: str) -> str:
    """``are`` or ``were`` as the count asks for."""
    return many if count != 1 else {"are": "is", "were": "was"}[many]
