"""Certified accuracy against radius as a table for a page or for a paper; the claim stands over it."""

from brinell.report.latex import escaped
from brinell.smoothing.claim import claim_line
from brinell.smoothing.figures import SmoothFigures
from brinell.smoothing.folder import SmoothReading

COLUMNS = ("Radius, L2", "Certified rows, at least", "Of all rows", "Share", "95 % interval")


def smoothing_as_markdown(reading: SmoothReading) -> None:
    """The table as GitHub-flavoured Markdown."""
    lines = [
        " | ".join(COLUMNS),
        "|".join(["--:"] * len(COLUMNS)),
        *(" | ".join(line) for line in _body(reading.figures)),
    ]
    claim = claim_line(reading.manifest, reading.figures).translate({ord(sign): f"\\{sign}" for sign in "\\`*_<[]|"})
    print("\n".join([f"> {' '.join(claim.split())}", "", *(f"| {line} |" for line in lines)]))


def smoothing_as_latex(reading: SmoothReading) -> None:
    """The table for ``booktabs`` and an encoding of T1."""
    claim = escaped(claim_line(reading.manifest, reading.figures))
    lines = [
        r"% needs \usepackage[T1]{fontenc} and \usepackage{booktabs}",
        r"\begin{table}",
        r"  \centering",
        f"  \\caption{{{claim}.}}",
        r"  \label{tab:brinell-smoothing}",
        r"  \begin{tabular}{@{}rrrrl@{}}",
        r"    \toprule",
        *(f"    {' & '.join(map(escaped, line))} \\\\" for line in (COLUMNS,)),
        r"    \midrule",
        *(f"    {' & '.join(map(escaped, line))} \\\\" for line in _body(reading.figures)),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    print("\n".join(lines))


def _body(figures: SmoothFigures) -> list[tuple[str, ...]]:
    return [
        (f"{radius:g}", str(figures.certified_at(radius).count), str(figures.rows), *share_of(figures, radius))
        for radius in figures.table_radii()
    ]


def share_of(figures: SmoothFigures, radius: float) -> tuple[str, str]:
    """Certified accuracy at a radius as a share, at least, and its interval; none where rows are pending."""
    found = figures.certified_at(radius)
    ends = found.interval
    return (
        f"{100 * found.count / found.of:.1f} %" if found.of else "none",
        "rows are pending" if ends is None else f"{100 * ends[0]:.1f} to {100 * ends[1]:.1f} %",
    )
