"""What is said of certificates, wherever a result is shown."""

from brinell.manifest import Certified
from brinell.result import Reading


def certificate_lines(reading: Reading) -> list[str]:
    """How certificates were sought, what they prove, and what was settled before any attack; none where none were sought."""
    about = reading.manifest.certified
    if about is None:
        return []
    return [_sought(about), _first(reading)] if about.first is not None else [_sought(about)]


def unresolved(reading: Reading) -> int:
    """Rows between the bounds: neither proved nor broken."""
    return reading.figures.status["standing"] + reading.figures.status["pending"] + reading.figures.status["error"]


def _sought(about: Certified) -> str:
    return f"certificates by {about.method}, about {about.seconds_a_row:g} s a row at most: {about.proves}"


def _first(reading: Reading) -> str:
    asked = [record for record in reading.certificates if record.first or not reading.attacked]
    settled, spent = [record.outcome for record in asked], sum(record.seconds for record in asked)
    if not reading.attacked:
        return (
            f"no attack was made: {settled.count('certified'):,} rows are certified, {settled.count('violated'):,} broken by "
            f"the search for a proof, in {spent:,.0f} s; {unresolved(reading):,} are unresolved"
        )
    return (
        f"before any attack {settled.count('certified'):,} rows were certified and {settled.count('violated'):,} broken by the "
        f"search for a proof, in {spent:,.0f} s: no attack was spent on them"
    )
