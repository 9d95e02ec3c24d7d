"""What is recorded of a row, an attempt, a point, a session. The fields' docstrings are the documentation of the format."""

import ast
import inspect
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, fields
from types import NoneType
from typing import Any, Literal, get_args

Status = Literal["misclassified", "broken", "certified", "standing", "pending", "error"]
STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True, kw_only=True)
class RowRecord:
    """One evaluated example."""

    row: int
    """Index in the data set."""
    place: int
    """Place in the selection, from 0, and in ``witnesses.npy`` and ``originals.npy``."""
    label: int
    """True class."""
    digest: str
    """SHA-256 of the clean input (precision, shape, values) and the label."""
    status: str
    """``misclassified`` before any attack; ``broken``: has a confirmed witness; ``certified``; ``standing``: went through
    the whole suite and is not broken; ``pending``: the run has not got to its end, or makes no attack; ``error``: could not
    be judged. Of a randomised model: ``misclassified`` if it is wrong in at least half of the draws that score the clean
    input, else ``broken`` if it is in at least half of those that score the chosen point, else ``standing``."""
    clean_prediction: int | None
    """Class that the model gives the clean input; of a randomised model, by its mean logits."""
    clean_margin: float | None
    """``logits[y] - max_{j != y} logits[j]`` on the clean input, in logit units; above 0 if and only if correct. Of a
    randomised model, of its mean logits."""
    input_size: float | None
    """Norm of the clean input in the threat model's norm, in input units."""
    stage: int | None
    """Place in the suite, from 0, of the attack that found the witness (randomised: the chosen point; None where that is
    the clean input)."""
    attempt: int | None
    """Attempt of that attack, from 0."""
    prediction: int | None
    """Class that the model gives the witness."""
    margin: float | None
    """Margin at the witness when it was found, in logit units; 0 or below. Randomised: of the mean logits over the draws
    that score the chosen point, of either sign."""
    distance: float | None
    """Norm of witness (randomised: chosen point) minus clean input, computed in float64, in input units."""
    witness_digest: str | None
    """SHA-256 of the witness's (randomised: chosen point's) values as stored."""
    confirmed: int
    """1 once the referee has confirmed the witness, or the chosen point has been scored, else 0."""
    unconfirmed: int
    """Witnesses of this row that the referee did not confirm."""
    forwards: int
    """Forward passes that attacks made on this row, in attempts that have ended."""
    backwards: int
    """Backward passes, counted likewise."""
    reason: str | None
    """Why the row's status is ``error``."""


@dataclass(frozen=True, kw_only=True)
class AttemptRecord:
    """One attack on one row with one attempt index (a restart, or a restart on a target)."""

    row: int
    """Index in the data set."""
    stage: int
    """Place of the attack in the suite, from 0."""
    attempt: int
    """Which attempt of the attack, from 0."""
    turn: int
    """Place in the order in which attempts were made on this run's rows, from 0."""
    outcome: str
    """``fell``: a witness was found; ``stood``; ``unconfirmed``: a witness that the referee refused; ``proposed``: points
    of it were candidates for scoring (randomised models, whose rows do not fall); ``error``."""
    best_margin: float | None
    """Least margin met inside the threat set, in logit units; of a randomised model, least mean margin."""
    forwards: int
    """Forward passes made on this row in this attempt."""
    backwards: int
    """Backward passes, counted likewise."""
    reason: str | None
    """Why the attempt ended in an error."""


@dataclass(frozen=True, kw_only=True)
class TraceRecord:
    """What one point of one attempt was like, kept of up to 16 rows drawn by the seed (deterministic models)."""

    row: int
    """Index in the data set."""
    turn: int
    """Turn of the attempt, as in ``attempts``."""
    stage: int
    """Place of the attack in the suite, from 0."""
    attempt: int
    """Which attempt of the attack, from 0."""
    step: int
    """Place of the point among those that the attempt asked about, from 0: one for each forward pass."""
    margin: float | None
    """Margin at the point, in logit units; null where the point lay outside the threat set, or the logits were not
    finite. The least of an attempt is its ``best_margin``."""
    loss: float | None
    """The loss that was climbed at the point, in its own units; null where scores alone were asked for, or gradients
    towards several classes."""
    flat: float | None
    """Share of its gradient's coordinates that are exactly 0; 1 is a gradient that says nothing. Null where scores alone
    were asked for."""
    gap: float | None
    """Of what the loss can gain to first order from the worst point of ball and box to the best, the share that lies
    ahead of this point (the Frank-Wolfe gap, made relative): 0 where no way leads up. Linf only; null in other norms,
    outside the threat set, where the gradient is zero, and where ``loss`` is null."""


@dataclass(frozen=True, kw_only=True)
class FrequencyRecord:
    """How often a randomised model was right on one row. No draw of the model counts in two places."""

    row: int
    """Index in the data set."""
    clean_draws: int
    """Draws that score the clean input."""
    clean_correct: int
    """How many of them were right."""
    candidates: int | None
    """Points among which one was chosen: those kept of the attempts, and the clean input."""
    candidate: int | None
    """Place of the chosen one among all that the suite's attempts can keep, in their order; -1: the clean input."""
    select_draws: int | None
    """Draws of the chosen point that it was chosen by; 0 where there was nothing to choose from."""
    select_correct: int | None
    """How many of them were right: an estimate that is too low, for the point was chosen by it."""
    control_draws: int | None
    """As ``select_draws``, where every candidate is the clean input: what choosing makes of noise alone."""
    control_correct: int | None
    """How many of them were right."""
    draws: int | None
    """Fresh draws that score the chosen point."""
    correct: int | None
    """How many of them were right: what the figures are made from."""


@dataclass(frozen=True, kw_only=True)
class CertificateRecord:
    """What a certificate says of one row within the run's threat model."""

    row: int
    """Index in the data set."""
    method: str
    """The dearest step that was allowed: ``interval``, ``crown``, ``slopes``, ``layers``, ``cells`` or ``branch``."""
    step: str | None
    """The step that settled the row, ``none`` where the middle of the threat set did; null where nothing did."""
    first: int
    """1 if it was sought before any attack, so that no attack was made on a row that it settled; else 0."""
    outcome: str
    """``certified``: no point of the threat set is an error; ``violated``: a point is, which the model has confirmed;
    ``unknown``: neither was found within the time."""
    margin: float | None
    """A proved lower bound of the worst margin over the threat set, in logit units; None where there is none."""
    slack: float
    """By how much it must be above 0, in logit units: room for the rounding of the deployed model."""
    questions: int
    """Sub-questions that branch and bound asked, and cells."""
    seconds: float
    """Spent on the row, each time that it was asked about."""


@dataclass(frozen=True, kw_only=True)
class SessionRecord:
    """One stretch of work on a run: from its start, or a resume, to its end."""

    session: int
    """Counted from 1."""
    started: str
    """UTC, ISO 8601."""
    ended: str | None
    """UTC; None if the process was killed."""
    forwards: int
    """Forward passes that attacks made, also in attempts that were cut off and made again later."""
    backwards: int
    """Backward passes, counted likewise."""
    clean_forwards: int
    """Forward passes on clean inputs before the attacks."""
    referee_forwards: int
    """Forward passes made to confirm witnesses."""
    preflight_forwards: int
    """Forward passes made by the checks before the attacks."""
    select_forwards: int
    """Forward passes made to choose a row's point among the candidates (randomised models), controls included."""
    score_forwards: int
    """Forward passes made to score the chosen points in fresh draws (randomised models)."""
    preflight_backwards: int
    """Backward passes, counted likewise."""


Record = CertificateRecord | RowRecord | AttemptRecord | TraceRecord | FrequencyRecord | SessionRecord


def field_docs(kind: type[Any]) -> dict[str, str]:
    """Each field's docstring, where it has one: the documentation of the format."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    docs: dict[str, str] = {}
    for statement, following in zip(body.body, body.body[1:], strict=False):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            docs[statement.target.id] = " ".join(str(following.value.value).split())
    return docs


def columns(kind: type[Record]) -> dict[str, tuple[type, bool]]:
    """Each field's type and whether it may be empty."""
    found = {}
    for field in fields(kind):
        kinds = [k for k in (get_args(field.type) or (field.type,)) if k is not NoneType]
        found[field.name] = (kinds[0], len(kinds) < len(get_args(field.type) or (field.type,)))
    return found


def as_columns(kind: type[Record], records: Sequence[Record]) -> dict[str, list[Any]]:
    """Records as columns, for a table elsewhere."""
    return {field.name: [getattr(record, field.name) for record in records] for field in fields(kind)}
