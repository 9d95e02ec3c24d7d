"""The checks over a run's record, each one function. Its docstring says when it is raised, what that means, what to do."""

from collections.abc import Callable

from brinell.diagnose.diagnosis import Diagnosis, Found, Weight, explained, name_of
from brinell.diagnose.evidence import Evidence
from brinell.statistics import clopper_pearson

GRADIENT_FREE = ("square",)
"""Attacks that ask for no gradient."""
SHARE_OF_FLIPS = 0.002
LEAST_FLIPS = 3
"""So many rows, and this share of all, must fall to an attack without gradients before it is said (AutoAttack's check)."""
NEARER_SHARE = 0.1
"""Share of a sample on which an attack without gradients may come nearer than all before it."""
STILL = 0.001
"""Share of all rows that may fall in the last quarter of the passes."""
DECLARED_OFF = 0.02
"""How far clean accuracy may lie from the declared one, if chance does not explain it either."""
FEWEST_RUNS = 3
FLAT, FURTHER = 0.02, 0.05
"""Of the clean margin: how little the ends of a row's runs may differ to be one plateau, and how far below it is further."""
PLATEAUS = 0.1
"""Share of the rows with both kinds of runs."""
FAR_TARGETS = 0.1
"""Share of the rows whose nearest wrong class may lie beyond the targets that were tried."""


def incomplete(run: Evidence) -> Found:
    """Raised if rows are pending.

    Means: the figure is an interval; rows that no attack has got to would count as robust.
    Do: resume the run, or raise its budget.
    """
    pending = run.figures.status["pending"]
    return Found(pending > 0, f"{pending} of {run.figures.rows} rows are pending")


def clean_accuracy_as_declared(run: Evidence) -> Found:
    """Raised if clean accuracy is more than 2 points from the declared one, and outside its 99 % interval.

    Means: these are not the model, the rows or the preprocessing that the declaration speaks of.
    Do: check scale, normalisation, channel order and labels before anything else.
    """
    spec = run.manifest.spec
    declared = spec.declared.clean_accuracy if spec is not None else None
    figure = run.figures.clean_accuracy
    if declared is None or figure.value is None:
        return Found(None, "no clean accuracy is declared" if declared is None else "clean accuracy is not known yet")
    low, high = clopper_pearson(figure.count, figure.of, 0.99)
    off = abs(figure.value - declared) > DECLARED_OFF and not low <= declared <= high
    return Found(off, f"declared {100 * declared:.1f} %, measured {figure}")


def certified_and_broken(run: Evidence) -> Found:
    """Raised if a row has both a certificate and a confirmed witness.

    Means: one of them is wrong, so that neither figure can be given.
    Do: report it; until it is found, believe neither the certificates nor the attacks.
    """
    if not run.certificates:
        return Found(None, "no certificates were sought")
    certified = {record.row for record in run.certificates if record.outcome == "certified"}
    both = sorted(row.row for row in run.rows if row.row in certified and row.status == "broken")
    return Found(bool(both), f"{len(both)} rows are both certified and broken{f': {both[:5]}' if both else ''}")


def errors_in_rows(run: Evidence) -> Found:
    """Raised if any row is in error.

    Means: the model raised, or gave no finite scores or gradients; such rows count as not robust, whatever they are.
    Do: read the reasons in the report; an overflow in float16 is the commonest.
    """
    errors = run.figures.status["error"]
    return Found(errors > 0, f"{errors} of {run.figures.rows} rows could not be judged")


def witnesses_refused(run: Evidence) -> Found:
    """Raised if the referee refused more than a row in 500, and more than one.

    Means: the model answers otherwise in another batch; what stands may depend on its neighbours.
    Do: look for statistics over the batch, mixed precision or randomness.
    """
    refused = run.figures.unconfirmed
    return Found(
        refused > max(1, SHARE_OF_FLIPS * run.figures.rows),
        f"{refused} witnesses did not hold when they were scored again",
    )


def wrong_gradients(run: Evidence) -> Found:
    """Raised if on a tenth of the rows tried the margin does not change as its gradient says.

    Means: the backward pass is not that of the model: rounded or replaced, zero, negated, random.
    Do: attack through a stated backward (`brinell.adaptive.bpda`), and believe no figure without it.
    """
    return _of_gradients(run, "wrong-gradients", "the margin changes as its gradient says")


def short_sighted_gradients(run: Evidence) -> Found:
    """Raised if on a tenth of the rows tried the margin does not change as its gradient says across a quarter of the ball,
    though it does close by.

    Means: the backward pass is right and says little at the attack's scale: an oscillating or switching score.
    Do: a first step as large as the ball, losses without scale (DLR), more queries without gradients.
    """
    return _of_gradients(
        run, "short-sighted-gradients", "the margin changes as its gradient says across a quarter of the ball"
    )


def zero_gradients(run: Evidence) -> Found:
    """Raised if the gradient of cross-entropy is exactly zero on a row tried.

    Means: the loss is saturated, or the graph is cut; an attack on cross-entropy alone finds nothing there.
    Do: use a suite with margin or DLR losses; state the true outputs (logits or probabilities).
    """
    return _found_before(run, "zero-gradients", "no gradient of cross-entropy is exactly zero")


def misleading_gradients(run: Evidence) -> Found:
    """Raised if climbing the margin with no limit but the box leaves more than 5 % of the rows tried right.

    Means: gradients lead nowhere: with the whole box to go, a sound attack succeeds on nearly every row.
    Do: look for a step that hides gradients (rounding, clamps, large gains), and attack through a stated backward.
    """
    counts = run.manifest.unbounded
    if not counts:
        return Found(None, "not made for randomised models, or at eps 0")
    rows = counts["rows"]
    losses = [name for name in counts if name != "rows"]
    if not rows:
        return Found(None, "no row tried was right before any attack")
    said = "; ".join(f"{name} leaves {counts[name]} of {rows}" for name in losses)
    misled = [name for name in losses if f"misleading-gradients of {name}" in run.manifest.findings]
    return Found("margin" in misled, f"with no limit but the box, {said} rows right")


def saturated_cross_entropy(run: Evidence) -> Found:
    """Raised if climbing cross-entropy with no limit but the box leaves more than 5 % of the rows tried right, where the
    margin does not.

    Means: large logits saturate cross-entropy. Suites with other losses are not misled by it.
    Do: nothing under such a suite; never trust an attack on cross-entropy alone here.
    """
    findings, counts = run.manifest.findings, run.manifest.unbounded
    if not counts:
        return Found(None, "not made for randomised models, or at eps 0")
    names = [
        name for name in counts if name not in ("rows", "margin") and f"misleading-gradients of {name}" in findings
    ]
    alone = bool(names) and "misleading-gradients of margin" not in findings
    return Found(alone, f"{', '.join(names) or 'cross-entropy'} {'misleads' if alone else 'does not mislead'} alone")


def noisy_gradients(run: Evidence) -> Found:
    """Raised if the mean gradients of two halves of an attack's draws have a median cosine below 0.3.

    Means: an attack on this randomised model follows noise more than the gradient.
    Do: raise `attack` in the suite's [draws].
    """
    if not run.randomised:
        return Found(None, "the model is deterministic")
    return _found_before(run, "noisy-gradients", "gradients of two halves of the draws agree")


def input_spread(run: Evidence) -> Found:
    """Raised if the inputs spread over less than a hundredth of the box.

    Means: box and inputs are probably on two scales, so that eps is another than meant.
    Do: state `low` and `high` on the inputs' scale.
    """
    return _found_before(run, "input-spread", "inputs fill the box")


def black_box_finds_more(run: Evidence) -> Found:
    """Raised if an attack without gradients broke rows that all before it had left (3 and 1 in 500 of all rows; 1 of a
    sample), or came nearer on a tenth of its sample.

    Means: the attacks with gradients were weak here; what they left says little.
    Do: more queries and restarts for the attack without gradients, and an adaptive attack.
    """
    if run.randomised:
        return Found(None, "not made for randomised models")
    told, raised, sampled = [], False, {sample.stage: sample for sample in run.samples}
    for stage, table in enumerate(run.manifest.suite["attacks"]):
        figures = run.figures.stages[stage]
        if table["attack"] not in GRADIENT_FREE or not figures.given or stage == 0:
            continue
        if stage in sampled:
            sample = sampled[stage]
            raised |= sample.broke > 0 or sample.nearer > NEARER_SHARE * sample.drawn
            told.append(
                f"{table['attack']} broke {sample.broke} of a sample of {sample.drawn}, nearer on {sample.nearer}"
            )
        else:
            raised |= figures.broke >= max(LEAST_FLIPS, SHARE_OF_FLIPS * run.figures.rows)
            told.append(f"{table['attack']} broke {figures.broke} of the {figures.given} rows that were left to it")
    return Found(raised, "; ".join(told)) if told else Found(None, "no attack without gradients came after others")


def weak_suite(run: Evidence) -> Found:
    """Raised if the suite has no attack without gradients, or none on several losses or targets.

    Means: nothing in it would have noticed that gradients mislead, or that one loss does.
    Do: run `brinell` or `autoattack`; name a weak suite's figure as what it is.
    """
    if run.randomised:
        return Found(None, "not made for randomised models")
    attacks = run.manifest.suite["attacks"]
    losses = {table.get("loss", table["attack"]) for table in attacks if table["attack"] not in GRADIENT_FREE}
    blind = not any(table["attack"] in GRADIENT_FREE for table in attacks)
    if run.manifest.imported is not None:
        return Found(True, "the points were made elsewhere, and by what is not known")
    aimed = any(_aims(table) and table.get("targets", 1) > 1 for table in attacks)
    single = ["no attack with gradients"] if not losses else ["no second loss"] * (len(losses) < 2 and not aimed)
    lacking = ["no attack without gradients"] * blind + single
    suite = f"suite {run.manifest.suite['name']}"
    return Found(bool(lacking), f"{suite} has {' and '.join(lacking) or 'attacks with and without gradients'}")


def still_breaking(run: Evidence) -> Found:
    """Raised if a budget ended the attacks, or a row in 1,000 (and more than one) fell in the last quarter of the passes.

    Means: more of the same would find more.
    Do: raise the budget, or add restarts.
    """
    saturation, passes = run.saturation, len(run.turns)
    if run.manifest.cut is not None:
        return Found(True, f"the budget of {run.manifest.budget} ended the attacks before the suite was through")
    if saturation is None or passes < 4:
        return Found(None, "too few turns to see whether they still pay")
    recent, share = saturation.recent_broke, saturation.recent_passes / saturation.passes
    return Found(
        recent > max(1, STILL * run.figures.rows) and share < 0.9,
        f"{recent} rows fell in the last {saturation.recent_passes:,} of {saturation.passes:,} passes",
    )


def plateau(run: Evidence) -> Found:
    """Raised if on a tenth of the standing rows with both kinds of runs, all runs by the model's own slopes stop at one
    margin, and one by smooth slopes of its ReLUs gets clearly further.

    Means: the model's own gradients are masked where these runs stop. The suite's smooth slopes got past it.
    Do: nothing under such a suite; under others, add attacks with `slope = "smooth"`.
    """
    smooth = {i for i, table in enumerate(run.manifest.suite["attacks"]) if table.get("slope") == "smooth"}
    own = {
        i
        for i, table in enumerate(run.manifest.suite["attacks"])
        if table.get("slope") == "own" or table["attack"] == "apgd"
    }
    if run.randomised or not smooth or not own:
        return Found(None, "the suite has not both kinds of slopes")
    standing = {row.row: row.clean_margin or 0.0 for row in run.rows if row.status == "standing"}
    met: dict[int, tuple[list[float], list[float]]] = {row: ([], []) for row in standing}
    for attempt in run.attempts:
        if attempt.row in met and attempt.best_margin is not None and attempt.stage in smooth | own:
            met[attempt.row][attempt.stage in smooth].append(attempt.best_margin)
    both = {row: margins for row, margins in met.items() if len(margins[0]) >= FEWEST_RUNS and margins[1]}
    stopped = sum(
        max(plain) - min(plain) < FLAT * standing[row] and min(bent) < min(plain) - FURTHER * standing[row]
        for row, (plain, bent) in both.items()
    )
    if not both:
        return Found(None, f"no standing row had {FEWEST_RUNS} runs by its own slopes and one by smooth ones")
    return Found(
        stopped > PLATEAUS * len(both), f"on {stopped} of {len(both)} standing rows own slopes stop at one margin"
    )


def few_targets(run: Evidence) -> Found:
    """Raised if on a tenth of the rows tried the wrong class that is nearest to first order (MALT) has a lower logit than all
    that targeted attacks aim at.

    Means: with many classes the highest logits are not always the nearest classes.
    Do: raise `targets`.
    """
    ranks = run.manifest.target_ranks
    if not ranks:
        return Found(None, "not made for so few classes")
    tried = max((table.get("targets", 0) for table in run.manifest.suite["attacks"] if _aims(table)), default=0)
    if not tried:
        return Found(None, "no attack of the suite aims at a class")
    beyond = sum(rank > tried for rank in ranks)
    return Found(
        beyond > FAR_TARGETS * len(ranks),
        f"on {beyond} of {len(ranks)} rows the nearest class lies beyond {tried} targets",
    )


def attacked_as_trained(run: Evidence) -> Found:
    """Raised if the suite is a single attack, of the kind that the model is declared to be trained with.

    Means: it shows what the model has learnt, not what it withstands.
    Do: run a suite of several attacks.
    """
    spec = run.manifest.spec
    trained = spec.declared.training_attack if spec is not None else None
    if trained is None:
        return Found(None, "no training attack is declared")
    names = {table["attack"] for table in run.manifest.suite["attacks"]}
    same = len(names) == 1 and next(iter(names)).lower() in trained.lower()
    return Found(same, f"trained with {trained}, attacked with {', '.join(sorted(names))}")


def clamped_inputs(run: Evidence) -> Found:
    """Raised if gradients vanish on the faces of the box, as where a model clamps its input.

    Means: an attack that moves along the faces sees no gradient there. Gradients were taken a hair inside instead.
    Do: nothing; the record says so.
    """
    return Found(
        run.manifest.pull_in > 0,
        f"gradients were taken {run.manifest.pull_in:.0e} inside the box"
        if run.manifest.pull_in
        else "they do not vanish",
    )


def _of_gradients(run: Evidence, check: str, otherwise: str) -> Found:
    """What the comparison with differences found, where it was made."""
    if "stated-backward" in run.manifest.findings:
        return Found(None, run.manifest.findings["stated-backward"])
    if not run.manifest.unbounded:
        return Found(None, "not made for randomised models, or at eps 0")
    return _found_before(run, check, otherwise)


def _found_before(run: Evidence, check: str, otherwise: str) -> Found:
    said = run.manifest.findings.get(check)
    return Found(said is not None, said or otherwise)


def _aims(table: dict[str, object]) -> bool:
    return table["attack"] in ("fab-t", "a3") or str(table.get("loss", "")).startswith("targeted")


CHECKS: tuple[tuple[Weight, Callable[[Evidence], Found]], ...] = (
    ("invalid", incomplete),
    ("invalid", clean_accuracy_as_declared),
    ("invalid", certified_and_broken),
    ("suspect", errors_in_rows),
    ("suspect", witnesses_refused),
    ("suspect", input_spread),
    ("suspect", wrong_gradients),
    ("suspect", short_sighted_gradients),
    ("suspect", misleading_gradients),
    ("suspect", noisy_gradients),
    ("suspect", black_box_finds_more),
    ("suspect", few_targets),
    ("suspect", weak_suite),
    ("suspect", still_breaking),
    ("suspect", attacked_as_trained),
    ("information", plateau),
    ("information", zero_gradients),
    ("information", saturated_cross_entropy),
    ("information", clamped_inputs),
)
"""Every check with its weight, in the order in which they are told."""


def diagnosed(run: Evidence) -> tuple[Diagnosis, ...]:
    """All checks on one run."""
    diagnoses = []
    for weight, check in CHECKS:
        found, says = check(run), explained(check)
        diagnoses.append(Diagnosis(name_of(check), weight, found.raised, found.said, says.means, says.advice))
    return tuple(diagnoses)
