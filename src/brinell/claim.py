"""The claim that a run supports, and the threat model that it was made under."""

import json
from collections.abc import Sequence

from brinell.claims.claim import Claim
from brinell.claims.conditions import AttackSuite, ClaimedModel, Cost, Data, ThreatModel
from brinell.claims.figure import Figure
from brinell.diagnose.diagnosis import Diagnosis, outcome_of
from brinell.frequencies import Frequency, RandomisedFigures
from brinell.manifest import Manifest
from brinell.metrics import Figures, Proportion
from brinell.records import CertificateRecord
from brinell.suites.rules import RULED
from brinell.threat import Threat


def claim_of(
    manifest: Manifest,
    figures: Figures,
    randomised: RandomisedFigures | None,
    diagnoses: Sequence[Diagnosis],
    certificates: Sequence[CertificateRecord],
) -> Claim:
    """The claim that a run supports."""
    sought = None if manifest.certified is None else sum(record.seconds for record in certificates)
    data, declared = manifest.data, manifest.spec.declared if manifest.spec is not None else None
    contradicted = any(diagnosis.check == "certified-and-broken" and diagnosis.open for diagnosis in diagnoses)
    credit = ", rejections under attack count as right" if manifest.model["outputs"] == "logits-and-reject" else ""
    return Claim(
        made_by=f"Brinell {manifest.environment.brinell}",
        quantity="robust accuracy" if randomised is None else "expected robust accuracy",
        figure=_figure(figures.robust_accuracy if randomised is None else randomised.expected),
        clean=_figure(figures.clean_accuracy if randomised is None else randomised.clean),
        certified=None if manifest.certified is None or contradicted else _figure(figures.certified_accuracy),
        data=Data(
            name=data["source"],
            known_as=declared.data if declared is not None else None,
            rows=data["selection"],
            digest=data["digest"],
            preprocessing=declared.preprocessing if declared is not None else None,
        ),
        threat=ThreatModel(
            **{key: manifest.threat[key] for key in ("norm", "low", "high", "goal")},
            eps=manifest.threat["eps_text"],
            eps_is="absolute",
            access=manifest.threat["access"] + credit,
        ),
        suite=_suite(manifest, randomised),
        model=ClaimedModel(
            name=manifest.model["source"],
            fingerprint=manifest.model["fingerprint"],
            training_attack=declared.training_attack if declared is not None else None,
            training_data=declared.training_data if declared is not None else None,
        ),
        cost=Cost(forwards=figures.passes.forwards, backwards=figures.passes.backwards, proof_seconds=sought),
        errors=figures.status["error"] if randomised is None else randomised.failed,
        outcome=outcome_of(diagnoses),
        findings=tuple(diagnosis.check for diagnosis in diagnoses if diagnosis.open),
        state=_state(manifest, figures),
    )


def _state(manifest: Manifest, figures: Figures) -> str:
    pending = figures.status["pending"]
    if figures.complete:
        return ""
    if not manifest.suite["attacks"] and manifest.state == "complete":
        return f"no attack was made, {pending} rows unresolved"
    return f"run {'out of budget' if manifest.cut else 'incomplete'}, {pending} rows pending"


def _figure(figure: Proportion | Frequency) -> Figure:
    count = figure.count if isinstance(figure, Proportion) else figure.total
    named = isinstance(figure, Proportion) and figure.denominator == "initially correct rows"
    return Figure(
        value=figure.value,
        count=count,
        of=figure.of,
        denominator="initially correct rows" if named else "all rows",
        undecided=figure.undecided,
        noise=None if isinstance(figure, Proportion) else figure.noise,
        text=str(figure),
    )


def _suite(manifest: Manifest, randomised: RandomisedFigures | None) -> AttackSuite:
    suite = manifest.suite
    own = [{key: value for key, value in attack.items() if key not in RULED} for attack in suite["attacks"]]
    return AttackSuite(
        name=suite["name"],
        version=suite["version"],
        digest=suite["digest"],
        attacks=tuple(json.dumps(attack, sort_keys=True) for attack in own),
        uneven=own != suite["attacks"],
        seeds=str(manifest.seed),
        budget=manifest.budget,
        cut=manifest.cut is not None,
        draws=None if randomised is None else randomised.draws.attack,
    )


def threat_of(manifest: Manifest) -> Threat:
    """The threat model that a run was made under."""
    table = manifest.threat
    return Threat(
        table["norm"],
        table["eps_text"],
        low=table["low"],
        high=table["high"],
        goal=table["goal"],
        access=table["access"],
    )
