"""The result for a page or a pull request."""

from brinell.claim import threat_of
from brinell.report.certified import COLUMNS, bounds, certificate_lines, certified_figure, upper_end
from brinell.report.imported import head_line, imported_markdown
from brinell.report.text import (
    cost_line,
    finding_lines,
    randomised_lines,
    settings_line,
    spending_lines,
    stage_columns,
    stage_counts,
    status_line,
    surrogate_lines,
)
from brinell.result import Reading


def markdown_report(reading: Reading) -> str:
    """The result as GitHub-flavoured Markdown; the claim is the tables' caption."""
    manifest, figures = reading.manifest, reading.figures
    lines = [
        f"# Robustness of `{_cell(manifest.model['source'])}`",
        "",
        f"> {_cell(reading.claim.line())}",
        "",
        "| figure | value |",
        "|---|---|",
        *(f"| {name} | {sign} {figure} |" for name, sign, figure in _randomised(reading)),
        f"| clean accuracy | {figures.clean_accuracy} |",
        f"| {_upper(reading)} | {_headline(reading)} |",
        *(
            [f"| certified accuracy (proved, lower bound) | {_cell(' '.join(certified_figure(reading)).strip())} |"]
            if manifest.certified is not None
            else []
        ),
        *([f"| attack success rate | {figures.attack_success_rate} |"] if reading.attacked else []),
        f"| perturbation size | {figures.perturbation} |",
        "",
        f"{_cell(status_line(figures))}.",
        "",
        *_both(reading),
        *(_attacks(reading) if reading.attacked else []),
        f"{cost_line(figures)}.",
        "",
        *(f"- {_cell(line)}." for line in (*surrogate_lines(reading), *spending_lines(reading))),
        *(f"- {_cell(line)}." for line in finding_lines(reading)),
        *(f"- {_cell(line)}." for line in certificate_lines(reading)),
        "",
        f"Threat model: {threat_of(manifest).describe()}. Rows: {figures.rows} of {_cell(manifest.data['source'])}, "
        f"{_cell(manifest.data['selection'])}. Suite: {_cell(manifest.suite['name'])} v{_cell(manifest.suite['version'])}. "
        f"Seed {manifest.seed}. torch {manifest.environment.torch}, {manifest.environment.precision}.",
    ]
    lines += ["", *(f"- {_cell(note)}" for note in manifest.notes)] if manifest.notes else []
    if manifest.imported is not None:
        lines += ["", f"**{_cell(head_line(manifest.imported))}**", ""]
        lines += [f"- {_cell(line)}" for line in imported_markdown(manifest.imported)]
    lines += ["", f"Run digest: `{manifest.seal}`", ""]
    return "\n".join(lines)


def _randomised(reading: Reading) -> list[tuple[str, str, str]]:
    if reading.randomised is None:
        return []
    first, *others = randomised_lines(reading.randomised)
    by = f"*right in most of {reading.randomised.draws.score} draws:*"
    return [(first[0], first[1], f"**{first[2]}**"), *others, (by, "", "")]


def _both(reading: Reading) -> list[str]:
    both = bounds(reading)
    if both is None:
        return []
    return [f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}", f"| {' | '.join(map(_cell, both))} |", ""]


def _attacks(reading: Reading) -> list[str]:
    given = "Each attack was given rows that those before it had left"
    if reading.randomised is not None:
        given = "Each attack was given all rows on which the model is ever right"
    columns, suite = stage_columns(reading), reading.manifest.suite
    lines = [f"| attack | settings | {' | '.join(columns)} |", f"|---|---|{'--:|' * len(columns)}"]
    for title, settings, stage in zip(reading.stage_titles(), suite["attacks"], reading.figures.stages, strict=True):
        counts = " | ".join(stage_counts(reading, stage))
        lines.append(f"| {_cell(title)} | {_cell(settings_line(settings))} | {counts} |")
    return [*lines, "", f"{given}.", ""]


def _upper(reading: Reading) -> str:
    upper = upper_end(reading)
    return f"{upper.name} ({', '.join(filter(None, (upper.by, 'upper bound')))})"


def _headline(reading: Reading) -> str:
    figure = f"refused: {_cell(reading.refused)}" if reading.refused else str(upper_end(reading).figure)
    return f"**{figure}**" if reading.randomised is None else figure


def _cell(text: object) -> str:
    """Foreign text that cannot break out of its place."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("`", "'").replace("<", "&lt;").replace("](", "]\\(")
