"""The result for a page or a pull request."""

from brinell.claim import threat_of
from brinell.report.text import cost_line, status_line
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
        f"| clean accuracy | {figures.clean_accuracy} |",
        f"| robust accuracy (empirical, upper bound) | **{figures.robust_accuracy}** |",
        f"| attack success rate | {figures.attack_success_rate} |",
        f"| perturbation size | {figures.perturbation} |",
        "",
        f"{_cell(status_line(figures))}.",
        "",
        "| attack | given | broke first | left | errors | forwards | backwards |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for title, stage in zip(reading.stage_titles(), figures.stages, strict=True):
        numbers = (stage.given, stage.broke, stage.left, stage.errors, stage.forwards, stage.backwards)
        lines.append(f"| {_cell(title)} | " + " | ".join(f"{number:,}" for number in numbers) + " |")
    lines += [
        "",
        f"Each attack was given the rows that those before it had left. {cost_line(figures)}.",
        "",
        f"Threat model: {threat_of(manifest).describe()}. Rows: {figures.rows} of {_cell(manifest.data['source'])}, "
        f"{_cell(manifest.data['selection'])}. Suite: {_cell(manifest.suite['name'])} v{_cell(manifest.suite['version'])}. "
        f"Seed {manifest.seed}. torch {manifest.environment.torch}, {manifest.environment.precision}.",
    ]
    lines += ["", *(f"- {_cell(note)}" for note in manifest.notes)] if manifest.notes else []
    lines += ["", f"Run digest: `{manifest.digest}`", ""]
    return "\n".join(lines)


def _cell(text: object) -> str:
    """Foreign text that cannot break out of its place."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("`", "'").replace("<", "&lt;").replace("](", "]\\(")
