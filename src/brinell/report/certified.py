"""What is said of certificates, wherever a result is shown."""

from brinell.manifest import Certified
from brinell.result import Reading


def certificate_lines(reading: Reading) -> list[str]:
    """How certificates were sought, what they prove, and what was settled before any attack; none where none were sought."""
    about = reading.manifest.certified
    if about is None:
        return []
    return [_sought(about), *([_first(reading)] if about.first is not None else [])]


def _sought(about: Certified) -> str:
    return f"certificates by {about.method}, about {about.seconds_a_row:g} s a row at most: {about.proves}"


def _first(reading: Reading) -> str:
    settled = [record.outcome for record in reading.certificates if record.row in reading.settled_first]
    spent = sum(record.seconds for record in reading.certificates if record.first)
    return (
        f"before any attack {settled.count('certified'):,} rows were certified and {settled.count('violated'):,} broken by the "
        f"search for a proof, in {spent:,.0f} s: no attack was spent on them"
    )
