"""What is said of a result that was made elsewhere: where it comes from, what was found, what its numbers counted."""

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from brinell.checks.finding import Finding


@dataclass(frozen=True)
class Recount:
    """One of their numbers beside its value by their rule and the figure of the run."""

    figure: str
    """Which number."""
    told: float | None
    """As the file says it; None where it says none."""
    by_their_rule: float | None
    """Recomputed over the rows that their rule counts; None where it cannot be."""
    rule: str
    """Which rows it counts, and how."""
    right: float | None
    """The figure of the run; None without a model, or where nothing was measured."""
    right_rule: str
    """Over which rows that is; empty where there is none."""

    def sentence(self) -> str:
        """All of it in one line."""
        told = "not in the file" if self.told is None else f"theirs {self.told:.6g}"
        again = "cannot be recomputed" if self.by_their_rule is None else f"by their rule {self.by_their_rule:.6g}"
        line = f"{told}; {again} ({self.rule})"
        if not self.right_rule:
            return line
        return f"{line}; of this run {'undefined' if self.right is None else f'{self.right:.6g}'} ({self.right_rule})"


class Imported(BaseModel):
    """Where an imported result comes from, and what was found in it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tool: str
    """Whose names the file uses: ``arrays``, ``foolbox``, ``art``, ``autoattack`` or ``torchattacks``."""
    files: dict[str, str]
    """SHA-256 of each file that was read; empty for arrays that were handed over in Python."""
    points: str
    """SHA-256 of the points with the rows that they belong to; empty where no run was made of them."""
    rows: int
    """Rows of the file, those that the data lack included."""
    unattacked: int
    """Rows of the data for which there is no point: they were not attacked, stand, and are in the denominator."""
    findings: list[Finding]
    """Each check of the file: what was checked, whether it holds (null: could not be checked), what was found."""
    recounts: list[Recount]
    """Each of their numbers: as told, by their rule with the rows that it counts, and the figure of this run."""
