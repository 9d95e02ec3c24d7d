"""The outcome of a check."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """The outcome of one check."""

    check: str
    """What was checked."""
    holds: bool | None
    """Whether it holds; None where it could not be checked."""
    detail: str
    """What was found, or why it could not be checked."""


def equal(check: str, found: str, expected: str) -> Finding:
    """Whether two digests are one."""
    if found == expected:
        return Finding(check, True, f"{expected[:16]}… as recorded")
    return Finding(check, False, f"{found[:16]}…, recorded as {expected[:16]}…")
