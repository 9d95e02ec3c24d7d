"""RobustBench's leaderboard as claims, and a run in the shape of its entries.

The leaderboard is a folder of files, ``DATASET/THREAT/MODEL.json``, in its repository (``model_info``); name a checkout of it
with ``--robustbench`` or in the environment variable ``BRINELL_ROBUSTBENCH``. Accuracies are percents as texts. What an
entry leaves unsaid (rows, counts, box, seeds, cost) is left unsaid here.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

from brinell.claims.claim import Claim
from brinell.claims.conditions import AttackSuite, ClaimedModel, ThreatModel
from brinell.claims.conditions import Data as ClaimedData
from brinell.claims.figure import Figure
from brinell.errors import BadInput

PREFIX = "robustbench:"
VARIABLE = "BRINELL_ROBUSTBENCH"
REPORTED_GAP = 0.5
"""In points: beyond it the authors' own figure is named beside the leaderboard's."""
_NORMS = {"Linf": "linf", "L2": "l2"}


def is_entry(source: str) -> bool:
    """Whether a source names an entry: ``robustbench:cifar10/Linf/Carmon2019Unlabeled``."""
    return source.startswith(PREFIX)


def entry(source: str, folder: Path | None) -> Claim:
    """The claim of one entry.

    Raises
    ------
    BadInput
        If no folder is named, the folder is none of the leaderboard's, or there is no such entry.
    """
    root = _root(folder)
    name = source.removeprefix(PREFIX)
    path = root / f"{name}.json"
    if name.count("/") != 2 or ".." in name or not path.is_file():
        raise BadInput(
            f"entry {source}",
            got="no such file in " + str(root),
            expected="robustbench:DATASET/THREAT/MODEL",
            remedy=_nearest(root, name),
        )
    try:
        return claim_of_entry(json.loads(path.read_text("utf-8")), name)
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        reason = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        raise BadInput(
            f"entry {source}",
            got=f"a file that cannot be read ({reason})",
            expected="a model_info file",
            remedy="Check it.",
        ) from None


def entries(folder: Path | None) -> list[str]:
    """The names of all entries within a norm; corruptions are no threat model of this kind."""
    root = _root(folder)
    found = sorted(path.relative_to(root).with_suffix("") for path in root.glob("*/*/*.json"))
    return [f"{PREFIX}{path.as_posix()}" for path in found if path.parts[1] in _NORMS]


def claim_of_entry(info: dict[str, Any], name: str) -> Claim:
    """What one file says, and the sentences that it attaches to its figure."""
    dataset, threat, model = name.split("/")
    if threat not in _NORMS:
        raise BadInput(
            f"entry {PREFIX}{name}",
            got=f"the threat {threat}",
            expected="Linf or L2",
            remedy="Accuracy on corruptions is a mean over fixed images, and no bound of anything within a norm.",
        )
    unsaid = []
    if info.get("unreliable") in (True, "true", "True"):
        unsaid.append("The leaderboard flags this evaluation as potentially unreliable.")
    if info.get("footnote"):
        unsaid.append(f"Footnote: {_plain(info['footnote'])}")
    figure, suite, version = info["autoattack_acc"], "AutoAttack", "as RobustBench runs it"
    external = info.get("external")
    if external is not None and float(external) < float(figure):
        unsaid.append(
            f"AutoAttack alone left {figure} %; another attack left {external} %, by its footnote if it has one."
        )
        figure, suite, version = external, "best known attack", model
    if float(info.get("reported") or "nan") - float(figure) > REPORTED_GAP:
        unsaid.append(f"Its authors report {info['reported']} %.")
    passes = info.get("number_forward_passes", 1)
    if str(passes) != "1":
        unsaid.append(f"One prediction takes {passes} forward passes.")
    return Claim(
        made_by="RobustBench leaderboard",
        figure=Figure(value=_share(figure), denominator="all rows"),
        clean=Figure(value=_share(info["clean_acc"]), denominator="all rows"),
        data=ClaimedData(name=dataset),
        threat=ThreatModel(norm=_NORMS[threat], eps=info["eps"], access="white-box"),  # type: ignore[arg-type]
        suite=AttackSuite(name=suite, version=version),
        model=ClaimedModel(
            name=f"{model} ({info.get('architecture', 'architecture unstated')})",
            training_data=f"{dataset} and more"
            if info.get("additional_data") in (True, "true")
            else f"{dataset} alone",
        ),
        unsaid=tuple(unsaid),
    )


def as_entry(claim: Claim) -> dict[str, Any]:
    """A run in the shape of an entry. What only people know is left for them to fill in, as null.

    ``autoattack_acc`` is filled in where the suite holds the standard AutoAttack; another suite's figure stands in
    ``external`` with its name beside it.
    """
    figure, clean = claim.figure.share, claim.clean.share if claim.clean is not None else None
    figure = None if claim.outcome == "invalid" else figure
    accuracy = None if figure is None else f"{100 * figure:.2f}"
    standard = claim.suite.name in ("autoattack", "autoattack-plus") and not claim.suite.cut
    return {
        "link": None,
        "name": None,
        "authors": None,
        "additional_data": None,
        "number_forward_passes": 1,
        "dataset": claim.data.known_as or claim.data.name,
        "venue": None,
        "architecture": None,
        "eps": claim.threat.eps,
        "clean_acc": None if clean is None else f"{100 * clean:.2f}",
        "reported": accuracy,
        "autoattack_acc": accuracy if standard else None,
        **({} if standard else {"external": accuracy}),
        "footnote": claim.line(),
    }


def _share(percent: str) -> float:
    return round(float(percent) / 100, 6)


def _plain(text: str) -> str:
    """A footnote without its markup."""
    return " ".join(re.sub(r"<[^>]*>", " ", str(text)).split())


def _root(folder: Path | None) -> Path:
    named = folder or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    if named is None:
        raise BadInput(
            "RobustBench's leaderboard",
            got="no folder",
            expected="the folder model_info of a checkout of its repository",
            remedy=f"Name it with --robustbench, or in the environment variable {VARIABLE}.",
        )
    for root in (named, named / "model_info"):
        if any(root.glob("*/*/*.json")):
            return root
    raise BadInput(
        f"RobustBench's leaderboard {named}",
        got="no files DATASET/THREAT/MODEL.json",
        expected="the folder model_info of a checkout of its repository",
        remedy="Check the path.",
    )


def _nearest(root: Path, name: str) -> str:
    from difflib import get_close_matches

    known = [path.relative_to(root).with_suffix("").as_posix() for path in root.glob("*/*/*.json")]
    near = get_close_matches(name, known, n=3, cutoff=0.4)
    return f"Did you mean {', '.join(near)}?" if near else f"There are {len(known)} entries, such as {min(known)}."
