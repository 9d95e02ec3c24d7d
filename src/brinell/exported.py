"""What a run's folder says, as data for other tools."""

from dataclasses import asdict
from typing import Any

from brinell.claim import threat_of
from brinell.diagnose.diagnosis import outcome_of
from brinell.frequencies import TRIES, VOTES, Frequency, RandomisedFigures
from brinell.metrics import PerturbationSize, Proportion
from brinell.result import Reading
from brinell.spending import CONFIDENCE, Saturation


def as_data(reading: Reading) -> dict[str, Any]:
    """The result as data: what ``brinell report --format json`` prints. Nothing measured is null."""
    figures, manifest = reading.figures, reading.manifest
    passes = figures.passes
    return {
        "format": manifest.format,
        "complete": reading.complete,
        "claim": reading.claim.line(),
        "claim_fields": reading.claim.model_dump(mode="json"),
        "outcome": outcome_of(reading.diagnoses),
        "findings": [asdict(diagnosis) for diagnosis in reading.diagnoses],
        "rows": figures.rows,
        "clean_accuracy": _figure(reading.clean_accuracy),
        "robust_accuracy": _figure(reading.robust_accuracy) if reading.refused is None else None,
        "refused_for": reading.refused,
        "false_rejections": None if reading.false_rejections is None else _proportion(reading.false_rejections),
        "certified_accuracy": _proportion(figures.certified_accuracy)
        if manifest.certified is not None and not reading.contradicted
        else None,
        "certified": None if manifest.certified is None else manifest.certified.model_dump(mode="json"),
        "attack_success_rate": _proportion(figures.attack_success_rate) if reading.attacked else None,
        "perturbation": _perturbation(figures.perturbation),
        "status": figures.status,
        "unconfirmed": figures.unconfirmed,
        "errors": figures.errors,
        "randomised": _randomised(reading, reading.randomised) if reading.randomised is not None else None,
        "attacks": [
            {
                "attack": title,
                "settings": settings,
                "given": stage.given,
                "broke": stage.broke,
                "left": stage.left,
                "errors": stage.errors,
                "forwards": stage.forwards,
                "backwards": stage.backwards,
            }
            for title, settings, stage in zip(
                reading.stage_titles(), manifest.suite["attacks"], figures.stages, strict=True
            )
        ],
        "samples": [
            {
                "attack": reading.stage_titles()[sample.stage],
                **asdict(sample),
                "would_break_at_most": sample.at_most,
                "confidence": CONFIDENCE,
            }
            for sample in reading.samples
        ],
        "saturation": _saturation(reading.saturation),
        "turns": [asdict(turn) for turn in reading.turns],
        "budget": manifest.budget,
        "cut": manifest.cut,
        "cost": {
            "forwards": passes.forwards,
            "backwards": passes.backwards,
            "of_which": {
                "attack_forwards": passes.attack_forwards,
                "attack_backwards": passes.attack_backwards,
                "clean_forwards": passes.clean_forwards,
                "referee_forwards": passes.referee_forwards,
                "select_forwards": passes.select_forwards,
                "score_forwards": passes.score_forwards,
            },
            "besides": {
                "preflight_forwards": passes.preflight_forwards,
                "preflight_backwards": passes.preflight_backwards,
                "cut_off_forwards": passes.cut_off_forwards,
                "cut_off_backwards": passes.cut_off_backwards,
            },
        },
        "threat": {**manifest.threat, "text": threat_of(manifest).describe()},
        "suite": {key: manifest.suite[key] for key in ("name", "version", "digest")},
        "model": manifest.model,
        "data": manifest.data,
        "seed": manifest.seed,
        "surrogate": None if manifest.surrogate is None else {**manifest.surrogate, **reading.on_surrogate._asdict()},
        "imported": None if manifest.imported is None else manifest.imported.model_dump(mode="json"),
        "notes": manifest.notes,
    }


def _proportion(figure: Proportion) -> dict[str, Any]:
    known = figure.undecided == 0
    return {
        "count": figure.count if known else None,
        "of": figure.of,
        "denominator": figure.denominator,
        "value": figure.value,
        "interval": list(figure.interval) if figure.interval else None,
        "level": figure.level,
        "undecided": figure.undecided,
        "at_least": figure.count,
        "at_most": figure.count + figure.undecided,
    }


def _figure(figure: Proportion | Frequency) -> dict[str, Any]:
    return _proportion(figure) if isinstance(figure, Proportion) else _frequency(figure)


def _randomised(reading: Reading, figures: RandomisedFigures) -> dict[str, Any]:
    return {
        "draws": asdict(figures.draws),
        "right_in_most_draws": {
            "of": figures.draws.score,
            "clean_accuracy": _proportion(reading.figures.clean_accuracy),
            "robust_accuracy": _proportion(reading.figures.robust_accuracy),
        },
        "failed": figures.failed,
        "clean": _frequency(figures.clean),
        "expected": _frequency(figures.expected),
        "persistent": {"tries": TRIES, **_frequency(figures.persistent)},
        "majority": {"votes": VOTES, **_frequency(figures.majority)},
        "wrong_sometimes_without_attack": _proportion(figures.one_look),
        "choosing": asdict(figures.choosing),
        "control": asdict(figures.control),
    }


def _frequency(figure: Frequency) -> dict[str, Any]:
    return {
        "value": figure.value,
        "of": figure.of,
        "denominator": "all rows",
        "draws": figure.draws,
        "interval": list(figure.interval) if figure.interval else None,
        "level": figure.level,
        "standard_error_by_draws": figure.noise,
        "undecided": figure.undecided,
        "bounds": list(figure.bounds) if figure.bounds else None,
    }


def _saturation(saturation: Saturation | None) -> dict[str, Any] | None:
    if saturation is None:
        return None
    return {
        **asdict(saturation),
        "expected_per_1000_passes": saturation.expected,
        "at_most_per_1000_passes": saturation.at_most,
        "confidence": CONFIDENCE,
    }


def _perturbation(size: PerturbationSize) -> dict[str, Any]:
    return {
        "count": size.count,
        "norm": size.norm,
        "eps": size.eps,
        "mean": size.mean,
        "quantiles": size.quantiles,
        "relative_mean": size.relative_mean,
        "relative_count": size.relative_count,
    }
