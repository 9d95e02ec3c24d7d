"""What is recorded of a smoothed classifier. The fields' docstrings are the documentation of the format."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from brinell.manifest import UNSEALED, Environment, digest_of
from brinell.smoothing.attack import SmoothPGD
from brinell.smoothing.setting import Setting
from brinell.spec import Spec

KIND = "smoothing"
FORMAT = 1
"""Version of the folder's format; raised with every change that a reader must know of."""
Outcome = Literal["certified", "wrong", "abstained"]
Judged = Literal["stands", "broken", "abstained", "error"]


class Attacked(BaseModel):
    """What PREDICT said of g at the point that the attack reached."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    outcome: Judged
    """``stands``: g's answer is the true class; ``broken``: it is another; ``abstained``: neither is clear at alpha; ``error``:
    the attack could not be made."""
    reason: str | None = None
    """Why not; None unless ``error``."""
    first: int | None = None
    """Class of most of the n noisy copies; None, as all below, if ``error``."""
    second: int | None = None
    """Class of most of the others."""
    count_first: int | None = None
    """Copies that had the first."""
    count_second: int | None = None
    """Copies that had the second."""
    close: int | None = None
    """Copies whose two highest logits are so near that rounding might turn them."""
    distance: float | None = None
    """L2 norm of the point minus the clean input, computed in float64, in input units."""
    digest: str | None = None
    """SHA-256 of the point's values as stored in ``points.npy``."""


class SmoothedRow(BaseModel):
    """One row: what CERTIFY returned, and what an attack found."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    row: int
    """Index in the data set."""
    place: int
    """Place in the selection, from 0, and in ``points.npy``."""
    label: int
    """True class."""
    digest: str
    """SHA-256 of the clean input (precision, shape, values) and the label."""
    base: int | None
    """Class that the base classifier f gives the clean input, without noise; None: tied, or logits that are not finite."""
    top: int
    """Class of most of the first n0 noisy copies: the one that was to be certified."""
    n0: int
    """How many these were."""
    k0: int
    """How many of them had the class."""
    n: int
    """How many other copies were looked at."""
    k: int
    """How many of these had the class."""
    undecided: int
    """How many of the n got no class: logits tied at the top, or not finite."""
    close: int
    """How many of the n have their two highest logits so near that rounding might turn them."""
    lower: float
    """Lower bound of the probability that f gives a noisy copy the class (Clopper & Pearson, one-sided at alpha)."""
    radius: float | None
    """``sigma Phi⁻¹(lower)``, input units, L2: within it g's answer does not change. None: abstained."""
    seed: int
    """Of the noise."""
    outcome: Outcome
    """``certified``: g's answer is the true class, out to the radius; ``wrong``: it is another; ``abstained``."""
    attacked: Attacked | None = None
    """What an attack found; None where none was made: without one, and on rows that were not ``certified``."""


class SmoothingManifest(BaseModel):
    """The circumstances under which a smoothed classifier was certified."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["smoothing"] = "smoothing"
    """What the folder holds: certificates of a smoothed classifier g. They are not about the base classifier f."""
    format: int = FORMAT
    """Version of the folder's format."""
    run: str
    """A name: the folder's when it was begun."""
    state: Literal["running", "interrupted", "complete"]
    """``running`` also after a kill."""
    started: str
    """UTC, ISO 8601."""
    ended: str | None = None
    """UTC; None while it goes on or if it was killed."""
    seconds: float = 0.0
    """Time spent in all sessions that ended by themselves."""
    environment: Environment
    """Software and hardware of the first session."""
    spec: Spec | None
    """Model, data, threat model and seed as they were asked for; None where no command asked."""
    model: dict[str, Any]
    """The base classifier f: source, fingerprint (SHA-256 of weights, architecture and what modules hold beside these), classes,
    declared outputs."""
    data: dict[str, Any]
    """Source, selection, digest of the selected rows, counts."""
    setting: Setting
    """sigma, n, n0 and alpha."""
    attack: SmoothPGD | None
    """Settings of the attack on g; None where none was asked for."""
    eps: str | None
    """Radius of the attack, L2, in input units, as written; None without one."""
    low: float
    """Lower bound of every value of clean inputs and attacked points; noisy copies are not clipped."""
    high: float
    """Upper bound of these."""
    seed: int
    """Of all noise."""
    batch_size: int
    """Noisy copies in a full batch."""
    notes: list[str]
    """What was adapted or is worth knowing, a sentence each."""
    files: dict[str, str] = {}
    """SHA-256 of each other file, once a session has ended."""
    digest: str = ""
    """SHA-256 of everything above."""

    @property
    def seal(self) -> str:
        """The digest, if a session has ended on this folder: what is not sealed yet has none to quote."""
        return self.digest if self.files else UNSEALED

    def sealed(self) -> "SmoothingManifest":
        """The same with the digest that belongs to it."""
        return self.model_copy(update={"digest": self.expected_digest()})

    def expected_digest(self) -> str:
        """The digest that the contents call for."""
        return digest_of(self.model_dump(mode="json", exclude={"digest"}))

    def names(self) -> str:
        """How g is called: by its base classifier and its noise."""
        return f"smoothed classifier g of f = {self.model['source']}, sigma {self.setting.noise}"


def outcome_of(setting: Setting, *, top: int, k: int, label: int) -> Outcome:
    """What follows for a row from its class and its count."""
    if setting.radius(k) is None:
        return "abstained"
    return "certified" if top == label else "wrong"


def judged_of(answer: int | None, label: int) -> Judged:
    """What PREDICT's answer at an attacked point says of a row."""
    if answer is None:
        return "abstained"
    return "stands" if answer == label else "broken"
