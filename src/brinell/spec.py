"""What a run is to do, as data: read from a TOML file, from options, or from both, and kept with the run."""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from brinell import zoo
from brinell.budget import Budget
from brinell.certify.steps import Step
from brinell.eps import Eps
from brinell.errors import BadInput

DEFAULT_MODEL = "builtin:fmnist-at"
BUILTIN_ROWS = "builtin:fmnist"
DEFAULT_SUITE = "brinell"


_EXPECTED = {"data": "rows to evaluate on", "threat": "a norm and a radius"}
_ESSENTIAL = {
    "data": "Name them with --data, for example rows.npz with arrays x and y.",
    "threat": "State it with --norm and --eps, for example --norm linf --eps 8/255.",
}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelSpec(_Strict):
    """Which model."""

    source: str
    """``builtin:NAME``, ``net.onnx``, ``file.py:name`` or ``package.module:name`` (a module, or a function that returns
    one)."""
    outputs: Literal["logits", "probabilities", "binary-logit", "logits-and-reject"] = "logits"
    """What the model returns."""
    device: str = "cpu"
    """Where it runs: ``cpu``, ``cuda``, ``cuda:1``; it needs float64."""


class DataSpec(_Strict):
    """Which rows."""

    source: str
    """``builtin:fmnist``, an ``.npz`` file with x and y, or an address of a function that returns (x, y)."""
    rows: str = "all"
    """``all``, a slice ``0:1000``, or a list ``3,17,5:9``."""
    scale: float = Field(default=1.0, gt=0)
    """Inputs are divided by this before anything else (255 for pixels)."""
    layout: Literal["as-is", "channels-last"] = "as-is"
    """How the inputs' axes are ordered."""


class ThreatSpec(_Strict):
    """Under which threat model."""

    norm: str
    """``linf``, ``l2`` or ``l1``."""
    eps: str
    """Radius in input units: a decimal or a fraction such as 8/255; kept as written."""
    low: float = 0.0
    """Lower bound of every input value."""
    high: float = 1.0
    """Upper bound of every input value."""

    @field_validator("eps", mode="before")
    @classmethod
    def _as_written(cls, value: object) -> str:
        try:
            return str(Eps(value))  # type: ignore[arg-type]  # whatever cannot be read is refused there
        except (BadInput, TypeError):
            raise ValueError(f"{value!r} is not a radius, finite and not negative; write it as 0.03 or 8/255") from None


class Declared(_Strict):
    """What is said of model and data that cannot be seen from them; it goes into the claim as declared."""

    data: str | None = None
    """The data set's common name, such as ``CIFAR-10``, so that runs compare with claims made elsewhere."""
    clean_accuracy: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of rows that the model is said to be right on; where the measured one is another, no figure is given."""
    preprocessing: str | None = None
    """What is done to an input before the model sees it, and whether the attack went through it."""
    training_data: str | None = None
    """What it was trained on."""
    training_attack: str | None = None
    """The attack that it was trained with, or ``none``."""


class CertifySpec(_Strict):
    """How certificates are sought."""

    method: Step
    """The dearest step that a row may be given: ``interval``, ``crown``, ``slopes``, ``layers``, ``cells`` or ``branch``."""
    seconds: float = Field(default=20.0, gt=0, lt=1e9)
    """About how long one row may take."""


def _is_budget(text: str) -> str:
    try:
        return Budget(text).text
    except BadInput as error:
        raise ValueError(f"{text!r} is none; write {error.expected}") from None


class Spec(_Strict):
    """One evaluation."""

    model: ModelSpec
    data: DataSpec
    threat: ThreatSpec
    suite: str = DEFAULT_SUITE
    """Name of a suite or an attack, or a suite file."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    """Of all random numbers in the attacks."""
    budget: Annotated[str, AfterValidator(_is_budget)] | None = None
    """What may be spent: passes for each row (``500/row``), passes in all (``2M``), or time (``30min``)."""
    batch_size: int | None = Field(default=None, gt=0)
    """Rows in a batch; measured where it is not given."""
    surrogate: ModelSpec | None = None
    """Another model, on which points are made that are proposed to this one."""
    certify: CertifySpec | None = None
    """How certificates are sought before the attacks, which are spared the rows that are settled; None: they are not."""
    declared: Declared = Declared()
    """What is said of model and data that cannot be seen from them."""

    @model_validator(mode="before")
    @classmethod
    def _shorthands(cls, table: Any) -> Any:
        """``model = "builtin:fmnist-at"`` stands for a table with that source; so do ``data`` and ``surrogate``."""
        if not isinstance(table, dict):
            return table
        short = {
            key: {"source": table[key]} for key in ("model", "data", "surrogate") if isinstance(table.get(key), str)
        }
        return {**table, **short}


def read_spec(path: Path | None, overrides: dict[str, Any]) -> Spec:
    """The spec in a file, under options that override it; what neither says is filled in for built-in models.

    ``overrides`` is nested like the file: ``{"threat": {"eps": "8/255"}}``.

    Raises
    ------
    BadInput
        If the file cannot be read, or what it says is not a spec; all faults are named at once.
    """
    table: dict[str, Any] = {}
    if path is not None:
        try:
            table = tomllib.loads(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            got = getattr(error, "strerror", None) or "a file that is not text"
            raise BadInput(f"spec {path}", got=got, expected="a TOML file", remedy="Check the path.") from None
        except tomllib.TOMLDecodeError as error:
            raise BadInput(f"spec {path}", got=str(error), expected="TOML", remedy="Mend the line named.") from None
    return spec_from(_with_defaults(_merged(table, overrides)), f"spec {path}" if path else "options")


def spec_from(table: dict[str, Any], subject: str) -> Spec:
    """The spec that a table describes; see ``read_spec``."""
    for key, remedy in _ESSENTIAL.items():
        if key not in table:
            raise BadInput(f"{key} ({subject})", got="nothing", expected=_EXPECTED[key], remedy=remedy)
    try:
        return Spec.model_validate(table)
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, fault['loc'])) or 'the file'}: {fault['msg'].lower()}" for fault in error.errors()
        ]
        raise BadInput(
            subject, got="; ".join(faults), expected="a complete spec", remedy="See `brinell run --help`."
        ) from None


def written(spec: Spec) -> str:
    """The spec as a TOML file that reads back as the same."""
    table = spec.model_dump(exclude_none=True)
    return tomli_w.dumps({key: value for key, value in table.items() if value != {}})


def _merged(table: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    merged = dict(table)
    for key, value in overrides.items():
        if isinstance(value, dict):
            below = merged.get(key, {})
            below = {"source": below} if isinstance(below, str) else below
            if isinstance(below, dict):  # else a fault, which is named when the whole is read
                merged[key] = _merged(below, value)
        elif value is not None:
            merged[key] = value
    return {key: value for key, value in merged.items() if value != {}}


def _with_defaults(table: dict[str, Any]) -> dict[str, Any]:
    """The built-in model where none is named; for a built-in model its rows and the threat model on its card."""
    if "model" not in table:
        table = {**table, "model": {"source": DEFAULT_MODEL}}
    model = table["model"]
    source = model.get("source", DEFAULT_MODEL) if isinstance(model, dict) else model
    if isinstance(model, dict) and "source" not in model:
        table = {**table, "model": {**model, "source": source}}
    if not str(source).startswith("builtin:"):
        return table
    card = zoo.card(str(source).removeprefix("builtin:"))
    data = table.get("data", {})
    if isinstance(data, dict):
        table = {**table, "data": {"source": BUILTIN_ROWS, **data}}
    threat = table.get("threat", {})
    if isinstance(threat, dict) and threat.get("norm", card.norm) == card.norm:
        table = {**table, "threat": {"norm": card.norm, "eps": str(card.eps), **threat}}
    declared = table.get("declared", {})
    if isinstance(declared, dict):
        rows = table.get("data", {})
        known = {"data": "Fashion-MNIST"} if isinstance(rows, dict) and rows.get("source") == BUILTIN_ROWS else {}
        table = {**table, "declared": {**known, **_declared_of(card), **declared}}
    return table


def _declared_of(card: zoo.Card) -> dict[str, str]:
    """What is known of a built-in model."""
    kind = re.search(r"PGD-\d+", card.training)
    attack = f"{kind.group()}, {card.trained_norm.capitalize()} {card.trained_eps:g}" if kind is not None else "none"
    return {
        "preprocessing": "none",
        "training_data": "Fashion-MNIST, training set",
        "training_attack": attack,
    }


def spec_beside(recorded: Spec | None, run: str, *, model: str | None, data: str | None) -> Spec:
    """The spec that a run was made from, with model and data taken from elsewhere where that is said.

    Raises
    ------
    BadInput
        If the run was made in Python, so that its files do not say where model and data are.
    """
    if recorded is None:
        raise BadInput(
            f"run {run}",
            got="a run that was made from objects in Python",
            expected="a run with a spec",
            remedy="Use the Python functions, which take the model and the data themselves.",
        )
    table = recorded.model_dump()
    for name, source in (("model", model), ("data", data)):
        if source is not None:
            table[name]["source"] = source
    return Spec.model_validate(table)
