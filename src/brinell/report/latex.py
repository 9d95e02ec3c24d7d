"""The result as two LaTeX tables for a paper; the caption is the claim."""

from collections.abc import Sequence

from brinell.report.certified import COLUMNS, bounds, certificate_lines, certified_figure, upper_end
from brinell.report.sections import sizes
from brinell.report.text import randomised_lines, settings_line, stage_columns, stage_counts
from brinell.result import Reading

_SPECIAL = {
    **{character: f"\\{character}" for character in "%_&#${}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    "[": "{[}",  # after \\ it would be an option
    "]": "{]}",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "–": "--",
    "…": r"\dots{}",
    "’": "'",
}


def latex_report(reading: Reading) -> str:
    """A table of figures and one of attacks, for ``booktabs`` and an encoding of T1."""
    figures = reading.figures
    refused = f"refused: {reading.refused}" if reading.refused else ""
    proved = [("Certified accuracy (proved, lower bound)", *certified_figure(reading))]
    upper, proved = upper_end(reading), proved if reading.manifest.certified is not None else []
    values = [
        ("Clean accuracy", "", str(figures.clean_accuracy)),
        (
            f"{upper.name.capitalize()} ({', '.join(filter(None, (upper.by, 'upper bound')))})",
            "" if refused else upper.sign,
            refused or str(upper.figure),
        ),
        *proved,
    ]
    if reading.attacked:
        sign = "≥" if reading.complete else ""
        values.append(("Attack success rate (empirical, lower bound)", sign, str(figures.attack_success_rate)))
    if reading.randomised is not None:
        draws = reading.randomised.draws.score
        own = [(name[0].upper() + name[1:], sign, value) for name, sign, value in randomised_lines(reading.randomised)]
        values = [*own, *((f"{name}, most of {draws} draws", sign, value) for name, sign, value in values)]
    statuses = [(f"Rows {status}", "", f"{count:,}") for status, count in figures.status.items() if count]
    lines = [
        r"% needs \usepackage[T1]{fontenc} and \usepackage{booktabs}",
        *_table(
            "@{}p{0.38\\linewidth}rp{0.54\\linewidth}@{}",
            ("Figure", "", "Value"),
            [*values, *statuses, ("Rows in all", "", f"{figures.rows:,}"), *_perturbation(reading)],
            caption=f"{escaped(reading.claim.line())}. Run digest \\texttt{{{reading.manifest.digest[:12]}}}.",
            label="brinell-figures",
        ),
        "",
        *_both(reading),
        *(_attacks(reading) if reading.attacked else []),
    ]
    return "\n".join(lines) + "\n"


def _both(reading: Reading) -> list[str]:
    both = bounds(reading)
    if both is None:
        return []
    sought, *_ = certificate_lines(reading)
    table = _table(
        "@{}llrlll@{}",
        [name.capitalize() for name in COLUMNS],
        [both],
        caption=f"Both bounds of the robust accuracy on these {reading.figures.rows:,} rows: {escaped(sought)}.",
        label="brinell-bounds",
    )
    return [*table, ""]


def _perturbation(reading: Reading) -> list[tuple[str, str, str]]:
    found = sizes(reading)
    if found is None:
        return [("Perturbation size", "", str(reading.figures.perturbation))]
    lines = []
    for name, (count, mean, *quantiles) in found.lines:
        spread = ", ".join(quantiles)
        lines.append(
            (f"Perturbation, {name}", "", f"mean {mean} over {count} broken rows (min, quartiles, max: {spread})")
        )
    return lines


def _attacks(reading: Reading) -> list[str]:
    columns = stage_columns(reading)
    suite = reading.manifest.suite
    body = [
        (f"{number}. {title}: {settings_line(settings)}", *stage_counts(reading, stage))
        for number, (title, settings, stage) in enumerate(
            zip(reading.stage_titles(), suite["attacks"], reading.figures.stages, strict=True), start=1
        )
    ]
    given = "Each attack was given rows that those before it had left: what it left is no robust accuracy."
    if reading.randomised is not None:
        given = "Each attack was given all rows on which the model is ever right."
    return _table(
        f"@{{}}p{{0.37\\linewidth}}{'r' * len(columns)}@{{}}",
        ("Attack and settings", *(name.capitalize() for name in columns)),
        body,
        caption=f"The attacks of suite {escaped(suite['name'])} v{escaped(suite['version'])}. {given}",
        label="brinell-attacks",
    )


def _table(columns: str, head: Sequence[str], body: Sequence[Sequence[str]], *, caption: str, label: str) -> list[str]:
    return [
        r"\begin{table}",
        r"  \centering",
        r"  \footnotesize",
        r"  \setlength{\tabcolsep}{3pt}",
        f"  \\caption{{{caption}}}",
        f"  \\label{{tab:{label}}}",
        f"  \\begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        f"    {_line(head)}",
        r"    \midrule",
        *(f"    {_line(line)}" for line in body),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]


def _line(cells: Sequence[str]) -> str:
    return " & ".join(map(escaped, cells)) + r" \\"


def escaped(text: object) -> str:
    """Text that LaTeX prints as it is, in one line; a character that pdflatex may not know becomes ``?``."""
    flat = " ".join(str(text).split())
    return "".join(_SPECIAL.get(c, c if c.isascii() or "À" <= c <= "ÿ" else "?") for c in flat)
