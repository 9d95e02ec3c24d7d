"""Writes what is made from the code: ``python docs/generate.py``; with a run's folder, the README's picture of it too."""

import inspect
import io
import json
import sys
from pathlib import Path

from rich.console import Console

from brinell.claims.files import schema
from brinell.diagnose.checks import CHECKS
from brinell.diagnose.diagnosis import explained, name_of
from brinell.imports.account import Imported, Recount
from brinell.manifest import FORMAT, Environment, Manifest
from brinell.records import (
    AttemptRecord,
    CertificateRecord,
    FrequencyRecord,
    Record,
    RowRecord,
    SessionRecord,
    TraceRecord,
    columns,
    field_docs,
)
from brinell.report.text import print_text
from brinell.result import read_run
from brinell.smoothing.record import Attacked, SmoothedRow, SmoothingManifest

HERE = Path(__file__).parent
HEAD = f"""# The run folder, format {FORMAT}

Made by `python docs/generate.py` from the fields' docstrings.

| file | what it is |
|---|---|
| `spec.toml` | what was asked for; absent where model and rows were handed over in Python |
| `manifest.json` | circumstances, settings, and the SHA-256 of every other file once a session has ended |
| `ledger.sqlite` | the tables below: the one source of every figure |
| `witnesses.npy` | points on which the model errs (randomised: the chosen ones), `(place, *feature)`, in input units, or zeros |
| `originals.npy` | the clean inputs of the rows that have one, in the same places |
| `clean_logits.npy` | the model's logits on the clean inputs, `(place, class)` |
| `rows.parquet`, `attempts.parquet` | the first two tables for other tools, made when a session ends |
| `traces.parquet` | the table of that name, likewise, where the model is deterministic |
| `certificates.parquet` | the table of that name, likewise, where certificates were sought |
| `frequencies.parquet` | the table of that name, likewise, where the model is randomised |
| `candidates.npy` | points that attempts on a randomised model kept; gone, and not sealed, once the run is complete |
| `result.json` | the figures, as `brinell report --format json` prints them |

While a run goes on, `ledger.sqlite` has a write-ahead log beside it (`-wal`, `-shm`) and every batch is one transaction.
A row is named by its index in the data set everywhere; `place` is its position in the selection and in the `.npy` files.

```python
import numpy as np, pyarrow.parquet as pq

rows = pq.read_table("runs/mine/rows.parquet").to_pylist()
witnesses = np.load("runs/mine/witnesses.npy", mmap_mode="r")
broken = [row for row in rows if row["status"] == "broken"]
x_adv = [witnesses[row["place"]] for row in broken]
```
"""


def checks_page() -> str:
    """The page about the checks over a run's record, from their docstrings."""
    parts = [
        "# Checks",
        "",
        "Made by `python docs/generate.py` from the checks' docstrings.",
        "",
        "`brinell doctor` makes the checks before an attack, on at most 64 rows; `brinell run` makes them too, and the others "
        "over its own record. `brinell diagnose RUN` says what was raised, what that means and what to do. A figure is "
        "**invalid** (a check says that it is none), **suspect** (a check stands against it, and is named beside it "
        "everywhere, the claim line included) or **not contradicted**. It is never called reliable: a check that is not "
        "raised proves nothing.",
        "",
        "`brinell doctor --planted` asks more: behind the model, on 16 rows, it plants an adversarial example by a linear "
        "readout of the logits (Zimmermann et al. 2022), and sees whether the suite finds it. A suite that "
        "does not find what is known "
        "to be there cannot be believed on the model itself.",
        "",
    ]
    for weight, check in CHECKS:
        says = explained(check)
        parts += [f"## {name_of(check)}", "", f"{says.raised_if} Weight: **{weight}**.", ""]
        parts += [f"- *What it means:* {says.means}", f"- *What to do:* {says.advice}", ""]
    return "\n".join(parts)


def claim_schema() -> str:
    """The JSON Schema of a claim."""
    return json.dumps(schema(), indent=2) + "\n"


def run_folder_page() -> str:
    """The page about a run's files."""
    parts = [HEAD]
    tables: tuple[tuple[str, type[Record]], ...] = (
        ("rows", RowRecord),
        ("attempts", AttemptRecord),
        ("traces", TraceRecord),
        ("frequencies", FrequencyRecord),
        ("certificates", CertificateRecord),
        ("sessions", SessionRecord),
    )
    for name, kind in tables:
        docs = field_docs(kind)
        parts.append(
            f"## Table `{name}`\n\n{' '.join((kind.__doc__ or '').split())}\n\n| column | type | meaning |\n|---|---|---|"
        )
        for column, (own, optional) in columns(kind).items():
            parts.append(f"| `{column}` | {own.__name__}{' or null' if optional else ''} | {_cell(docs[column])} |")
        parts.append("")
    for title, model in (
        ("`manifest.json`", Manifest),
        ("`environment` in it", Environment),
        ("`imported` in it", Imported),
        ("`recounts` in that", Recount),
        ("`manifest.json` of a [smoothed classifier](smoothing.md)", SmoothingManifest),
        ("A line of `rows.jsonl` there", SmoothedRow),
        ("`attacked` in that", Attacked),
    ):
        docs, names = field_docs(model), inspect.get_annotations(model)
        parts.append(f"## {title}\n\n| field | meaning |\n|---|---|")
        parts += [f"| `{field}` | {_cell(docs.get(field, ''))} |" for field in names if field != "model_config"]
        parts.append("")
    return "\n".join(parts)


def _cell(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|")


def picture_of(run: Path) -> str:
    """What `brinell run` printed of that run, as an SVG that needs nothing from the network."""
    console = Console(record=True, width=118, file=io.StringIO(), force_terminal=True, highlight=False)
    print_text(read_run(run), console)
    return console.export_svg(title="$ brinell run", code_format=SVG)


SVG = """<svg viewBox="0 0 {terminal_width} {terminal_height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-family: sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


if __name__ == "__main__":
    (HERE / "run-folder.md").write_text(run_folder_page(), encoding="utf-8")
    (HERE / "checks.md").write_text(checks_page(), encoding="utf-8")
    (HERE / "claim.schema.json").write_text(claim_schema(), encoding="utf-8")
    if sys.argv[1:]:  # the folder of a run
        (HERE / "images" / "run.svg").write_text(picture_of(Path(sys.argv[1])), encoding="utf-8")
