"""A run's folder, read: figures, claim, and the tables for other tools."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from brinell.claim import claim_of, threat_of
from brinell.claims.claim import Claim
from brinell.diagnose.checks import diagnosed
from brinell.diagnose.diagnosis import Diagnosis, outcome_of
from brinell.diagnose.evidence import Evidence
from brinell.draws import Draws
from brinell.frequencies import TRIES, VOTES, Frequency, RandomisedFigures, randomised_figures, right_at_first
from brinell.ledger import LEDGER, Ledger
from brinell.manifest import (
    ATTEMPTS_TABLE,
    CERTIFICATES_TABLE,
    DERIVED,
    FREQUENCIES_TABLE,
    RESULT,
    ROWS_TABLE,
    SPEC,
    TRACES_TABLE,
    Manifest,
    file_digests,
    read_manifest,
    replace_text,
    write_manifest,
)
from brinell.metrics import Figures, PerturbationSize, Proportion, figures_of
from brinell.points import CANDIDATES, CLEAN_LOGITS, ORIGINALS, WITNESSES
from brinell.records import (
    AttemptRecord,
    CertificateRecord,
    FrequencyRecord,
    Record,
    RowRecord,
    SessionRecord,
    TraceRecord,
    as_columns,
    columns,
    field_docs,
)
from brinell.spending import CONFIDENCE, Sample, Saturation, Turn, samples_of, saturation_of, turns_of

SEALED = (LEDGER, WITNESSES, ORIGINALS, CLEAN_LOGITS, CANDIDATES, SPEC, *DERIVED)
"""Files whose digests stand in the manifest once a session has ended."""

FALSE_REJECTIONS = "false rejections (clean rows that are rejected):"


@dataclass(frozen=True)
class Reading:
    """All that a run's folder says. Nothing of it is computed by a model."""

    folder: Path
    manifest: Manifest
    rows: tuple[RowRecord, ...]
    attempts: tuple[AttemptRecord, ...]
    frequencies: tuple[FrequencyRecord, ...]
    sessions: tuple[SessionRecord, ...]
    traces: tuple[TraceRecord, ...] = ()
    certificates: tuple[CertificateRecord, ...] = ()

    @cached_property
    def figures(self) -> Figures:
        """All figures, computed from the ledger."""
        return figures_of(
            self.rows,
            self.attempts,
            self.sessions,
            norm=self.manifest.threat["norm"],
            eps=self.manifest.threat["eps"],
            stages=len(self.manifest.suite["attacks"]),
            right=None
            if self.randomised is None
            else {record.row for record in self.frequencies if right_at_first(record)},
        )

    @cached_property
    def randomised(self) -> RandomisedFigures | None:
        """What is said of a randomised model besides; None for a suite that takes the model for deterministic."""
        if "draws" not in self.manifest.suite:
            return None
        failed = {attempt.row for attempt in self.attempts if attempt.outcome == "error"}
        failed |= {row.row for row in self.rows if row.status == "error"}
        draws = Draws(**self.manifest.suite["draws"])
        return randomised_figures(self.frequencies, rows=len(self.rows), failed=failed, draws=draws)

    @cached_property
    def false_rejections(self) -> Proportion | None:
        """Clean rows that are rejected, over all rows; None for a model whose rejections are not credited."""
        if self.manifest.model["outputs"] != "logits-and-reject":
            return None
        seen = [row.clean_prediction for row in self.rows]
        count = sum(prediction == self.manifest.model["classes"] for prediction in seen)
        return Proportion(count, len(seen), "all rows", undecided=seen.count(None))

    @cached_property
    def turns(self) -> list[Turn]:
        """What each turn of the suite did, in order."""
        return turns_of(self.attempts)

    @property
    def saturation(self) -> Saturation | None:
        """How the last passes paid; None where nothing was attacked, nothing falls (the model is randomised), or there are no
        more points to try (an import)."""
        return saturation_of(self.turns) if self.randomised is None and self.manifest.imported is None else None

    @property
    def samples(self) -> list[Sample]:
        """What the attacks did that the suite runs on rows drawn at random."""
        return samples_of(self.manifest.suite["attacks"], self.rows, self.attempts)

    @property
    def robust_accuracy(self) -> Proportion | Frequency:
        """The headline: rows that stand over all rows, or how often a randomised model is right at the chosen points."""
        return self.figures.robust_accuracy if self.randomised is None else self.randomised.expected

    @property
    def clean_accuracy(self) -> Proportion | Frequency:
        """The same before any attack."""
        return self.figures.clean_accuracy if self.randomised is None else self.randomised.clean

    @cached_property
    def diagnoses(self) -> tuple[Diagnosis, ...]:
        """What the checks say of the figure."""
        evidence = Evidence(
            manifest=self.manifest,
            figures=self.figures,
            rows=self.rows,
            attempts=self.attempts,
            turns=self.turns,
            samples=self.samples,
            saturation=self.saturation,
            randomised=self.randomised is not None,
            certificates=self.certificates,
        )
        return diagnosed(evidence)

    @property
    def refused(self) -> str | None:
        """Why no robust accuracy is given, where a check says that what was measured is none; None where one is."""
        against = [one for one in self.diagnoses if one.open and one.weight == "invalid" and one.check != "incomplete"]
        return "; ".join(f"{one.check}: {one.said}" for one in against) or None

    @property
    def claim(self) -> Claim:
        """The claim that the run supports."""
        return claim_of(self.manifest, self.figures, self.randomised, self.diagnoses)

    def stage_titles(self) -> list[str]:
        """A short name for each attack of the suite."""
        return [f"{table['attack']} {table.get('loss', '')}".strip() for table in self.manifest.suite["attacks"]]


def read_run(folder: Path) -> Reading:
    """Read a run's folder; a run under way is read as far as it has got.

    Raises
    ------
    BadInput
        If it is not the folder of a run.
    """
    manifest = read_manifest(folder)
    ledger = Ledger.open(folder / LEDGER)
    rows, attempts, sessions = tuple(ledger.rows()), tuple(ledger.attempts()), tuple(ledger.sessions())
    frequencies, traces = tuple(ledger.frequencies()), tuple(ledger.traces())
    certificates = tuple(ledger.certificates())
    ledger.release()
    return Reading(folder, manifest, rows, attempts, frequencies, sessions, traces, certificates)


def conclude(folder: Path, manifest: Manifest) -> Reading:
    """Write the tables and the result of a session that has ended, and last the manifest that seals every file."""
    reading = replace(read_run(folder), manifest=manifest)
    if reading.false_rejections is not None:
        notes = [note for note in manifest.notes if not note.startswith(FALSE_REJECTIONS)]
        said = f"{FALSE_REJECTIONS} {reading.false_rejections}, counted as misclassified"
        manifest = manifest.model_copy(update={"notes": [*notes, said]})
        reading = replace(reading, manifest=manifest)
    _write_table(folder / ROWS_TABLE, RowRecord, reading.rows)
    _write_table(folder / ATTEMPTS_TABLE, AttemptRecord, reading.attempts)
    if reading.randomised is None:
        _write_table(folder / TRACES_TABLE, TraceRecord, reading.traces)
    else:
        _write_table(folder / FREQUENCIES_TABLE, FrequencyRecord, reading.frequencies)
    if reading.certificates:
        _write_table(folder / CERTIFICATES_TABLE, CertificateRecord, reading.certificates)
    replace_text(folder / RESULT, json.dumps(as_data(reading), indent=2) + "\n")
    write_manifest(folder, manifest.model_copy(update={"files": file_digests(folder, SEALED)}))
    return replace(reading, manifest=read_manifest(folder))


def as_data(reading: Reading) -> dict[str, Any]:
    """The result as data: what ``brinell report --format json`` prints. Nothing measured is null."""
    figures, manifest = reading.figures, reading.manifest
    passes = figures.passes
    return {
        "format": manifest.format,
        "complete": figures.complete,
        "claim": reading.claim.line(),
        "claim_fields": reading.claim.model_dump(mode="json"),
        "outcome": outcome_of(reading.diagnoses),
        "findings": [asdict(diagnosis) for diagnosis in reading.diagnoses],
        "rows": figures.rows,
        "clean_accuracy": _figure(reading.clean_accuracy),
        "robust_accuracy": _figure(reading.robust_accuracy),
        "false_rejections": None if reading.false_rejections is None else _proportion(reading.false_rejections),
        "certified_accuracy": _proportion(figures.certified_accuracy) if manifest.certified is not None else None,
        "certified": None if manifest.certified is None else manifest.certified.model_dump(mode="json"),
        "attack_success_rate": _proportion(figures.attack_success_rate),
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


def _write_table(path: Path, kind: type[Record], records: Sequence[Record]) -> None:
    """A table for other tools; each column carries its documentation."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrow = {int: pa.int64(), float: pa.float64(), str: pa.string()}
    docs = field_docs(kind)
    schema = pa.schema(
        [
            pa.field(name, arrow[own], nullable=optional, metadata={"description": docs[name]})
            for name, (own, optional) in columns(kind).items()
        ]
    )
    partial = path.with_suffix(".partial")
    pq.write_table(pa.table(as_columns(kind, records), schema=schema), partial)
    partial.replace(path)
