"""Whether the suite that was chosen could have noticed."""

from brinell.diagnose.attacks import GRADIENT_FREE, aims, follows_gradients, own
from brinell.diagnose.diagnosis import Found
from brinell.diagnose.evidence import Evidence


def weak_suite(run: Evidence) -> Found:
    """Raised if the suite has no attack without gradients, or none on several losses or targets.

    Means: nothing in it would have noticed that gradients mislead, or that one loss does.
    Do: run `brinell` or `autoattack`; name a weak suite's figure as what it is.
    """
    if run.randomised:
        return Found(None, "not made for randomised models")
    attacks = own(run.manifest.suite["attacks"])
    losses = {table.get("loss", table["attack"]) for table in attacks if follows_gradients(table)}
    blind = not any(table["attack"] in GRADIENT_FREE for table in attacks)
    if run.manifest.imported is not None:
        return Found(True, "the points were made elsewhere, and by what is not known")
    aimed = any(aims(table) and table.get("targets", 1) > 1 for table in attacks if follows_gradients(table))
    single = ["no attack with gradients"] if not losses else ["no second loss"] * (len(losses) < 2 and not aimed)
    lacking = ["no attack without gradients"] * blind + single
    suite = f"suite {run.manifest.suite['name']}"
    return Found(bool(lacking), f"{suite} has {' and '.join(lacking) or 'attacks with and without gradients'}")


def attacked_as_trained(run: Evidence) -> Found:
    """Raised if the suite is a single attack, of the kind that the model is declared to be trained with.

    Means: it shows what the model has learnt, not what it withstands.
    Do: run a suite of several attacks.
    """
    spec = run.manifest.spec
    trained = spec.declared.training_attack if spec is not None else None
    if trained is None:
        return Found(None, "no training attack is declared")
    names = {table["attack"] for table in own(run.manifest.suite["attacks"])}
    same = len(names) == 1 and next(iter(names)).lower() in trained.lower()
    return Found(same, f"trained with {trained}, attacked with {', '.join(sorted(names))}")
