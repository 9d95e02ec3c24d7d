"""What the attacks of a suite say of each other."""

from itertools import permutations

from brinell.diagnose.attacks import GRADIENT_FREE, follows_gradients
from brinell.diagnose.diagnosis import Found
from brinell.diagnose.evidence import Evidence

SHARE_OF_FLIPS = 0.002
LEAST_FLIPS = 3
"""So many rows, and this share of all, must fall to an attack without gradients before it is said (AutoAttack's check)."""
NEARER_SHARE = 0.1
"""Share of its rows on which an attack without gradients may come nearer than all before it."""
LEAD = 0.05
"""Of the clean margin: by how much it must, where it got all rows that stand. On a sound net of Fashion-MNIST the 5,000
queries of AutoAttack's Square came nearer by more on 1 of 37 rows; on rounded inputs and scores 2,000 do on 2 to 17 of 17."""
FEWEST_RUNS = 3
FLAT, FURTHER = 0.02, 0.05
"""Of the clean margin: how little the ends of a row's runs may differ to be one plateau, and how far below it is further."""
PLATEAUS = 0.1
"""Share of the rows with both kinds of runs."""
FEWEST_COMMON = 10
FURTHER_LOSS = 0.25
"""Of the clean margin, in the mean of at least so many rows: by how much one loss must get nearer than another."""


def black_box_finds_more(run: Evidence) -> Found:
    """Raised if an attack without gradients broke rows that all before it had left (3 and 1 in 500 of all rows; 1 of a
    sample), or came nearer on a tenth of those that it got: of a sample at all, of all rows by a twentieth of the clean
    margin.

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
            nearer = nearer_than_before(run, stage)
            raised |= figures.broke >= max(LEAST_FLIPS, SHARE_OF_FLIPS * run.figures.rows)
            raised |= nearer >= LEAST_FLIPS and nearer > NEARER_SHARE * figures.given
            told.append(
                f"{table['attack']} broke {figures.broke} of the {figures.given} rows left to it, nearer on {nearer}"
            )
    return Found(raised, "; ".join(told)) if told else Found(None, "no attack without gradients came after others")


def bypass_finds_more(run: Evidence) -> Found:
    """Raised if attacks that step over what hides the gradient (BPDA by the identity) broke rows that the suite's own had
    left (3, and 1 in 500 of all rows).

    Means: the model's gradients are masked by the parts that the record names.
    Do: state a backward for them (`brinell.adaptive.bpda`) and run `adaptive`: a better stand-in may break more.
    """
    stages = [i for i, table in enumerate(run.manifest.suite["attacks"]) if table.get("slope") == "identity"]
    if run.randomised or not stages:
        return Found(
            None, "not made for randomised models" if run.randomised else "no part was found that hides gradients"
        )
    return _broke_more(run, stages, "attacks that stepped over what hides the gradient")


def transfer_finds_more(run: Evidence) -> Found:
    """Raised if points made on another model, the surrogate, broke rows that the suite's own attacks on the model had left
    (3, and 1 in 500 of all rows).

    Means: the model's gradients hide what another model's show: they are masked.
    Do: open the defence (`brinell.adaptive.bpda`); believe no attack that follows this model's own gradients.
    """
    stages = [i for i, table in enumerate(run.manifest.suite["attacks"]) if table["attack"] == "transfer"]
    if run.randomised or not stages:
        return Found(
            None, "not made for randomised models" if run.randomised else "no points of another model's were tried"
        )
    return _broke_more(run, stages, "points made on the surrogate")


def _broke_more(run: Evidence, stages: list[int], what: str) -> Found:
    """Whether further attacks broke more rows than an accident would explain."""
    broke = sum(run.figures.stages[stage].broke for stage in stages)
    given = max(run.figures.stages[stage].given for stage in stages)
    return Found(
        broke >= max(LEAST_FLIPS, SHARE_OF_FLIPS * run.figures.rows),
        f"{what} broke {broke} of the {given} rows that the attacks before them had left",
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


def nearer_than_before(run: Evidence, stage: int) -> int:
    """Rows on which an attack met less margin than every attack before it in the suite, by a twentieth of the clean one."""
    clean = {row.row: row.clean_margin or 0.0 for row in run.rows}
    before: dict[int, float] = dict(clean)
    own: dict[int, float] = {}
    for attempt in run.attempts:
        if attempt.best_margin is None or attempt.stage > stage:
            continue
        met = own if attempt.stage == stage else before
        met[attempt.row] = min(met.get(attempt.row, attempt.best_margin), attempt.best_margin)
    return sum(margin < before[row] - LEAD * clean[row] for row, margin in own.items())


def a_loss_gets_further(run: Evidence) -> Found:
    """Raised if on the rows that stand after both, one loss met margins lower than another by a quarter of the clean
    margin, in the mean over at least ten rows.

    Means: the other loss is a poor guide on this model; what a suite with it alone leaves standing says little.
    Do: nothing under a suite with both; never quote a figure by the poorer loss alone.
    """
    if run.randomised:
        return Found(None, "not made for randomised models")
    clean = {row.row: row.clean_margin for row in run.rows if row.status == "standing" and row.clean_margin}
    attacks = run.manifest.suite["attacks"]
    losses = [str(table.get("loss", "")) if follows_gradients(table) else "" for table in attacks]
    met: dict[str, dict[int, float]] = {}
    for attempt in run.attempts:
        if attempt.row in clean and attempt.best_margin is not None and losses[attempt.stage]:
            least = met.setdefault(losses[attempt.stage], {})
            least[attempt.row] = min(least.get(attempt.row, attempt.best_margin), attempt.best_margin)
    pairs = [
        (sum((met[worse][row] - met[better][row]) / clean[row] for row in common) / len(common), better, worse, common)
        for better, worse in permutations(met, 2)
        if len(common := met[better].keys() & met[worse].keys()) >= FEWEST_COMMON
    ]
    if not pairs:
        return Found(None, f"no two losses were climbed on the same {FEWEST_COMMON} rows that stand")
    lead, better, worse, common = max(pairs, key=lambda pair: pair[:3])
    return Found(
        lead > FURTHER_LOSS,
        f"on {len(common)} rows {better} got nearer than {worse} by {lead:.0%} of the clean margin in the mean",
    )
