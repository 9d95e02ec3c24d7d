"""How a run of a randomised model goes: points are proposed, chosen and scored, each with random numbers of its own.

Idea        one wrong decision of a randomised model says little: looked at often enough, it errs somewhere. What counts is
            how often it is right at the point that an attacker would commit to, in draws that had no part in the choice.
Source      expectation over transformation: Athalye et al. 2018 (arXiv 1802.00420), section 4; figures for a persistent
            attacker: Lucas et al. 2023 (arXiv 2302.13464), section 3; choosing: successive halving, Karnin et al. 2013,
            algorithm 1.
Departures  draws double with each halving up to a limit, in place of a fixed budget a round.
Cost        besides the attacks' passes ``Draws.besides`` forwards a row: the clean input and the chosen point are scored,
            and choosing is done twice, once for the control.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from brinell.draws import Draws
from brinell.frequencies import CLEAN, status_of
from brinell.geometry import per_row
from brinell.losses import decision, margin_of
from brinell.oracle import Oracle, Purpose
from brinell.queries import Cost
from brinell.records import FrequencyRecord
from brinell.run import Run
from brinell.scoring import chunks, refuse_unreadable
from brinell.shapes import Candidates, Indices, Labels, Offered
from brinell.tally import Moment, Observer


class Chosen(NamedTuple):
    """What successive halving left of each row's candidates."""

    place: Indices
    """Which candidate."""
    correct: Indices
    """In how many of its draws the model was right."""
    draws: int
    """How many draws it had."""
    forwards: int
    """Passes made in all."""


def carry_out(run: Run, observer: Observer, stop: Callable[[], bool]) -> bool:
    """Work until every row is scored or ``stop`` says so; whether it is through.

    Raises
    ------
    BadInput
        If the model gives no finite logits on clean rows.
    ModelFailed
        If the model raises on every row of a batch, or memory runs out on one.
    """
    draws = run.suite.draws
    assert draws is not None
    with run.subject.model.undisturbed():
        through = _score_clean_rows(run, draws, observer, stop)
        if run.subject.threat.eps > 0:
            through = through and run.attack(observer, stop)
        for phase in (_choose, _score):
            through = through and phase(run, draws, observer, stop)
    if through:
        with run.ledger.transaction():
            run.ledger.settle(cut=False)
    return through


def _score_clean_rows(run: Run, draws: Draws, observer: Observer, stop: Callable[[], bool]) -> bool:
    """How often the model is right on each clean input; a row on which it never is gets no attack."""
    done = {record.row for record in run.ledger.frequencies()}
    todo = [record.row for record in run.ledger.rows() if record.row not in done]
    unusable: list[int] = []
    for number, chunk in enumerate(chunks(todo, run.oracle.batch_size)):
        observer(_moment("clean rows", number * run.oracle.batch_size, len(todo)))
        x, y = run.recording.examples(chunk)
        looks = run.oracle.looks(x, y, draws.score, "clean")
        margin, decided = margin_of(looks.logits, y), decision(looks.logits, y)
        readable = looks.logits.isfinite().all(dim=1)
        unusable += [row for row, good in zip(chunk, readable.tolist(), strict=True) if not good]
        with run.ledger.transaction():
            run.ledger.count_passes(run.recording.session, clean_forwards=len(chunk) * draws.score)
            for i, row in enumerate(chunk):
                if not bool(readable[i]):
                    continue
                run.recording.clean_logits.write(run.recording.places[row], looks.logits[i].cpu().numpy())
                run.ledger.update_row(row, clean_prediction=int(decided[i]), clean_margin=float(margin[i]))
                run.ledger.add([_counted(row, draws.score, int(looks.correct[i]))])
        if stop() and not unusable and _more(number, run.oracle.batch_size, todo):
            return False
    refuse_unreadable(unusable)
    return True


def _counted(row: int, draws: int, correct: int) -> FrequencyRecord:
    return FrequencyRecord(
        row=row,
        clean_draws=draws,
        clean_correct=correct,
        candidates=None,
        candidate=None,
        select_draws=None,
        select_correct=None,
        control_draws=None,
        control_correct=None,
        draws=None,
        correct=None,
    )


def _choose(run: Run, draws: Draws, observer: Observer, stop: Callable[[], bool]) -> bool:
    """Choose among the candidates of each row the point that the model is right on least often."""
    proposers = run.ledger.proposers()
    todo = [record.row for record in run.ledger.frequencies() if record.candidates is None]
    everything = run.suite.attempts() * draws.kept
    length = max(run.oracle.batch_size // (everything + 1), 1)
    for number, chunk in enumerate(chunks(todo, length)):
        observer(_moment("choosing among candidates", number * length, len(todo)))
        x, y = run.recording.examples(chunk)
        offered = torch.zeros(len(chunk), everything + 1, dtype=torch.bool, device=x.device)
        points = x[:, None].repeat(1, everything + 1, *[1] * (x.dim() - 1))
        offered[:, CLEAN] = True
        for i, row in enumerate(chunk):
            for stage, attempt in proposers.get(row, []):
                first = run.suite.ordinal(stage, attempt) * draws.kept
                here = slice(first, first + draws.kept)
                kept = torch.from_numpy(run.recording.read_candidates(row, first, draws.kept)).to(x.device, x.dtype)
                offered[i, here] = run.subject.threat.contains(x[i].expand_as(kept), kept)
                points[i, here] = torch.where(per_row(offered[i, here], kept), kept, x[i])
        chosen = halved(run.oracle, points, offered, y, draws, "select")
        control = halved(run.oracle, x[:, None].expand_as(points), offered, y, draws, "control")
        with run.ledger.transaction():
            run.ledger.count_passes(run.recording.session, select_forwards=chosen.forwards + control.forwards)
            for i, row in enumerate(chunk):
                choice = int(chosen.place[i])
                many = int(offered[i].sum())
                run.ledger.update_frequency(
                    row,
                    candidates=many,
                    candidate=CLEAN if choice == everything else choice,
                    select_draws=chosen.draws if many > 1 else 0,
                    select_correct=int(chosen.correct[i]) if many > 1 else 0,
                    control_draws=control.draws if many > 1 else 0,
                    control_correct=int(control.correct[i]) if many > 1 else 0,
                )
                found_by = (None, None) if choice == everything else run.suite.attempt_at(choice // draws.kept)
                run.recording.record_point(row, points[i, choice], *found_by)
        if stop() and _more(number, length, todo):
            return False
    return True


def halved(oracle: Oracle, points: Candidates, offered: Offered, y: Labels, draws: Draws, purpose: Purpose) -> Chosen:
    """The candidate of each row that the model is right on least often, by successive halving.

    Ties go by the margin of the mean logits. A candidate whose logits are not finite goes at once. A row with a single
    candidate costs nothing.

    Parameters
    ----------
    points
        ``(row, candidate, *feature)``, in input units.
    offered
        ``(row, candidate)``: which of them are candidates.
    draws
        Says how many draws are made of those that are left.
    """
    place, correct = torch.zeros_like(y), torch.zeros_like(y)
    drawn = forwards = 0
    candidates = offered.sum(1)
    for many in sorted(set(candidates.tolist())):
        rows = (candidates == many).nonzero().squeeze(1)
        some = _halved_alike(oracle, points[rows], offered[rows], y[rows], draws.rounds(many), purpose)
        place[rows], correct[rows] = some.place, some.correct
        drawn, forwards = max(drawn, some.draws), forwards + some.forwards
    return Chosen(place, correct, drawn, forwards)


def _halved_alike(
    oracle: Oracle, points: Candidates, offered: Offered, y: Labels, rounds: list[tuple[int, int]], purpose: Purpose
) -> Chosen:
    """The same for rows with equally many candidates."""
    alive = offered.clone()
    correct = torch.zeros_like(offered, dtype=torch.int64)
    logits = points.new_zeros(*offered.shape, oracle.classes)
    drawn = forwards = 0
    for number, (_, more) in enumerate(rounds):
        rows, places = alive.nonzero(as_tuple=True)
        looks = oracle.looks(points[rows, places], y[rows], more, purpose)
        correct[rows, places] += looks.correct
        logits[rows, places] += looks.logits * more
        drawn, forwards = drawn + more, forwards + len(rows) * more
        margin = margin_of(logits.flatten(0, 1), y.repeat_interleave(offered.shape[1])).view_as(logits[..., 0])
        margin = margin.where(logits.isfinite().all(2), torch.nan)
        stays = 1 if number == len(rounds) - 1 else (alive.sum(1, keepdim=True) + 1) // 2
        alive = alive & (_rank(correct, margin, alive) < stays)
    best = alive.to(torch.int64).argmax(1)
    return Chosen(best, correct.gather(1, best[:, None]).squeeze(1), drawn, forwards)


def _rank(correct: Tensor, margin: Tensor, alive: Offered) -> Tensor:
    """The place of each candidate among its row's: fewest right decisions first, then least margin; the dead last."""
    lost = ~alive | margin.isnan()
    by_margin = margin.where(~lost, torch.inf).argsort(dim=1, stable=True)
    of_these = correct.where(~lost, torch.iinfo(torch.int64).max).gather(1, by_margin).argsort(dim=1, stable=True)
    order = by_margin.gather(1, of_these)
    return torch.empty_like(order).scatter_(
        1, order, torch.arange(order.shape[1], device=order.device).expand_as(order)
    )


def _score(run: Run, draws: Draws, observer: Observer, stop: Callable[[], bool]) -> bool:
    """How often the model is right at each chosen point, in fresh draws; the row's status follows."""
    counted, failed = {record.row: record for record in run.ledger.frequencies()}, run.ledger.failed()
    todo = [record for record in run.ledger.rows() if counted[record.row].draws is None and record.status != "error"]
    for number, chunk in enumerate(chunks(todo, run.oracle.batch_size)):
        observer(_moment("scoring the chosen points", number * run.oracle.batch_size, len(todo)))
        x, y = run.recording.examples([record.row for record in chunk])
        stored = np.stack([run.recording.witnesses.read(record.place) for record in chunk])
        points = torch.from_numpy(stored).to(x.device, x.dtype)
        looks = run.oracle.looks(points, y, draws.score, "score")
        sound = looks.logits.isfinite().all(dim=1) & run.subject.threat.contains(x, points)
        margin, decided = margin_of(looks.logits, y), decision(looks.logits, y)
        with run.ledger.transaction():
            run.ledger.count_passes(run.recording.session, score_forwards=len(chunk) * draws.score)
            for i, record in enumerate(chunk):
                if not bool(sound[i]):
                    run.ledger.update_row(record.row, status="error", reason="no finite logits at the chosen point")
                    continue
                scored = replace(counted[record.row], draws=draws.score, correct=int(looks.correct[i]))
                run.ledger.update_frequency(record.row, draws=draws.score, correct=int(looks.correct[i]))
                settled = status_of(scored)
                run.ledger.update_row(
                    record.row,
                    status="pending" if settled == "standing" and record.row in failed else settled,
                    prediction=int(decided[i]),
                    margin=float(margin[i]),
                    confirmed=1,
                )
        if stop() and _more(number, run.oracle.batch_size, todo):
            return False
    return True


def _more(number: int, length: int, todo: Sequence[object]) -> bool:
    """Whether anything is left after so many chunks of that length and one more."""
    return (number + 1) * length < len(todo)


def _moment(label: str, done: int, of: int) -> Moment:
    """How far a phase has got, in rows."""
    return Moment(f"{label}, {done} of {of}", of, 0, Cost(done, 0), Cost(of, 0))
