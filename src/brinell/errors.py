"""What can go wrong, and what the user does about it: one small tree, each with its exit code."""

EXIT_DONE = 0
EXIT_BAD_INPUT = 2
EXIT_INCOMPLETE = 3
EXIT_VERIFICATION_FAILED = 4
EXIT_MODEL_FAILED = 5
EXIT_OPEN = 6
"""Nothing can be concluded, or a claim leaves out what a reader must ask."""
EXIT_KILLED_BY_SECOND_INTERRUPT = 130


class BrinellError(Exception):
    """An error that a user can act on: subject, what was found, what was expected, what to do.

    Every error that Brinell raises on purpose is one of these; anything else is a defect.
    """

    exit_code = 1

    def __init__(self, subject: str, *, got: str, expected: str, remedy: str) -> None:
        super().__init__(f"{subject}: got {got}; expected {expected}. {remedy}")
        self.subject = subject
        self.got = got
        self.expected = expected
        self.remedy = remedy


class BadInput(BrinellError):
    """Something that the user gave cannot be used; no work has been done."""

    exit_code = EXIT_BAD_INPUT


class ModelFailed(BrinellError):
    """The model raised on every row that it was asked about, or ran out of memory on a single row."""

    exit_code = EXIT_MODEL_FAILED
