"""What is shown of a run: every figure with its counts, whatever the format; foreign text stays text."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import small_net
from brinell import Threat
from brinell.evaluation import Result
from brinell.exported import as_data
from brinell.report.markdown import markdown_report
from brinell.report.show import as_markdown, as_text
from brinell.report.text import cost_line, status_line
from brinell.result import Reading
from small_runs import small_result, small_run
from test_metrics import figures, rows_of

KEYS = {
    *("rows", "clean_accuracy", "robust_accuracy", "attack_success_rate", "perturbation", "status", "cost"),
    *("threat", "suite", "model", "data", "claim"),
}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    from brinell.evaluation import open_run

    return open_run(small_run(tmp_path_factory.mktemp("run")))


@pytest.fixture(scope="module")
def data(result: Result) -> dict[str, Any]:
    return as_data(result.reading)


def with_foreign(reading: Reading, text: str) -> Reading:
    """The same run with a text of somebody else's in every place where there may be one."""
    manifest = reading.manifest
    changed = manifest.model_copy(
        update={
            "model": {**manifest.model, "source": text},
            "data": {**manifest.data, "source": text},
            "suite": {**manifest.suite, "name": text, "version": text},
            "notes": [text],
        }
    )
    rows = tuple(replace(row, status="error", reason=text) if row.status == "standing" else row for row in reading.rows)
    return replace(reading, manifest=changed, rows=rows)


def test_json_has_all_that_is_asked_of_it(data: dict[str, Any]) -> None:
    assert set(data) >= KEYS
    for name in ("clean_accuracy", "robust_accuracy", "attack_success_rate"):
        assert set(data[name]) >= {"count", "of", "value", "interval", "denominator"}
        assert data[name]["value"] == data[name]["count"] / data[name]["of"]
        low, high = data[name]["interval"]
        assert low <= data[name]["value"] <= high
    assert set(data["perturbation"]) >= {"count", "norm", "mean", "relative_mean", "quantiles"}
    assert set(data["status"]) == {"misclassified", "broken", "certified", "standing", "pending", "error"}
    assert sum(data["status"].values()) == data["rows"] == 60
    assert {"forwards", "backwards"} <= set(data["cost"])
    assert data["cost"]["forwards"] == sum(n for name, n in data["cost"]["of_which"].items() if "forwards" in name)
    assert data["threat"]["norm"] == "linf"
    assert data["threat"]["eps"] == 0.06
    assert (data["suite"]["name"], data["suite"]["version"]) == ("small", "1")


def test_json_is_json(data: dict[str, Any]) -> None:
    """No NaN, no infinity, which other readers refuse; no numpy."""
    text = json.dumps(data, allow_nan=False)
    assert json.loads(text) == data


def test_json_where_nothing_broke(tmp_path: Path) -> None:
    said = as_data(small_result(tmp_path / "run", threat=Threat("linf", 0)).reading)
    size = said["perturbation"]
    assert (size["count"], size["mean"], size["relative_mean"], size["quantiles"]) == (0, None, None, None)
    assert said["attack_success_rate"]["count"] == 0


def test_json_where_no_row_was_right(tmp_path: Path) -> None:
    _, y = small_net.rows()
    wrong = [row for row in range(60) if row % 10 == 0]
    result = small_result(tmp_path / "run", rows=",".join(map(str, wrong)))
    said = as_data(result.reading)
    rate = said["attack_success_rate"]
    assert (rate["count"], rate["of"], rate["value"], rate["interval"]) == (0, 0, None, None)
    assert said["clean_accuracy"]["value"] == 0
    assert len(y) == 60


def test_nothing_to_attack_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    as_text(small_result(tmp_path / "run", rows="0,10,20").reading)
    assert "there was nothing to attack" in capsys.readouterr().out


def test_claim_has_all_its_conditions(result: Result) -> None:
    """Figure, rows, threat model, suite, model and cost: none of them can be left out."""
    passes = result.figures.passes
    manifest = result.reading.manifest
    for part in (
        f"robust accuracy, at most {result.robust_accuracy}",
        f"{manifest.data['source']} rows all ({manifest.data['digest'][:12]})",
        "Linf, eps 0.06, inputs in [0, 1], untargeted, white-box",
        "suite small v1",
        f"model {manifest.model['source']} ({manifest.model['fingerprint'][:12]})",
        f"{passes.forwards:,} forward and {passes.backwards:,} backward passes",
    ):
        assert part in result.claim
    assert "\n" not in result.claim


def test_claim_keeps_eps_as_it_was_written(tmp_path: Path) -> None:
    assert "eps 8/255" in small_result(tmp_path / "run", threat=Threat("linf", 8 / 255), suite="fgsm").claim


def test_text_has_every_figure(result: Result, capsys: pytest.CaptureFixture[str]) -> None:
    as_text(result.reading)
    out = capsys.readouterr().out
    for figure in (result.clean_accuracy, result.robust_accuracy, result.attack_success_rate, result.perturbation):
        assert str(figure) in out
    assert status_line(result.figures) in out
    assert result.reading.manifest.digest in out
    assert "≤" in out


def test_per_attack_lines_are_not_called_robust_accuracy(result: Result, capsys: pytest.CaptureFixture[str]) -> None:
    """auto-attack#45: the last attack's line is not the result."""
    as_text(result.reading)
    as_markdown(result.reading)
    for line in capsys.readouterr().out.splitlines():
        if re.match(r"\W*(pgd ce|apgd targeted-dlr)", line):
            assert "robust" not in line
            assert "%" not in line


def test_one_row_is_no_rows() -> None:
    assert status_line(figures(rows_of(broken=1))) == "1 row = 1 broken"
    assert status_line(figures(rows_of(error=1))) == "1 row = 1 error; error: the model raised (1 row)"
    assert status_line(figures(rows_of(broken=2))) == "2 rows = 2 broken"


def test_an_interval_of_figures_has_no_sign(result: Result, capsys: pytest.CaptureFixture[str]) -> None:
    """What is at most is said by the interval's end where rows are pending."""
    as_text(result.reading)
    assert "≤" in next(line for line in capsys.readouterr().out.splitlines() if line.startswith("robust accuracy"))
    rows = tuple(replace(row, status="pending") if row.status == "standing" else row for row in result.reading.rows)
    as_text(replace(result.reading, rows=rows))
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("robust accuracy"))
    assert "between" in line
    assert "≤" not in line


def test_status_line_is_a_sum() -> None:
    line = status_line(figures(rows_of(misclassified=2, broken=3, standing=4, error=1)))
    assert line == "10 rows = 2 misclassified + 3 broken + 4 standing + 1 error; error: the model raised (1 row)"


def test_cost_line_names_every_pass(result: Result) -> None:
    passes = result.figures.passes
    line = cost_line(result.figures)
    for count in (
        passes.forwards,
        passes.backwards,
        passes.attack_forwards,
        passes.clean_forwards,
        passes.referee_forwards,
    ):
        assert f"{count:,}" in line


def test_markdown_has_every_figure_and_its_conditions(result: Result) -> None:
    text = markdown_report(result.reading)
    for figure in (result.clean_accuracy, result.robust_accuracy, result.attack_success_rate, result.perturbation):
        assert str(figure) in text
    assert "upper bound" in text
    assert f"Run digest: `{result.reading.manifest.digest}`" in text
    assert result.claim.replace("|", "\\|") in text


HOSTILE = "a|b`c`<script>alert(1)</script>\n# not a heading\n\n| x | y |\n![i](http://x/y) [l](http://z) **bold**"


def test_markdown_escapes_foreign_text(result: Result) -> None:
    """Neither a heading, nor a table's row, nor a tag, an image or a link can be brought in by a name or a message."""
    honest = markdown_report(result.reading).splitlines()
    text = markdown_report(with_foreign(result.reading, HOSTILE))
    lines = text.splitlines()
    assert [line for line in lines if line.startswith("#")] == [lines[0]]
    assert "<script" not in text
    assert sum(line.startswith("|") for line in lines) == sum(line.startswith("|") for line in honest)
    for line in lines:
        if line.startswith("|"):
            cells = len(re.findall(r"(?<!\\)\|", line)) - 1
            assert cells in (2, 8), line
    assert "](" not in text


@pytest.mark.parametrize("text", ["models[v2]/net.py:load", "[/]", "[bold red]x[/bold red]", "[link=http://x]y[/link]"])
def test_text_shows_foreign_text_as_it_is(result: Result, capsys: pytest.CaptureFixture[str], text: str) -> None:
    as_text(with_foreign(result.reading, text))
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0].startswith(f"model {text} ")
    assert lines[1] == f"rows 60 of {text}, all"
    assert lines[3].startswith(f"suite {text} v{text} ")
    assert f"note: {text}" in lines


def test_partial_run_is_shown_as_bounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def stop(moment: object) -> None:
        raise KeyboardInterrupt

    from brinell.evaluation import open_run

    with pytest.raises(KeyboardInterrupt):
        small_result(tmp_path / "run", observer=stop)
    partial = open_run(tmp_path / "run")
    as_text(partial.reading)
    as_markdown(partial.reading)
    out = capsys.readouterr().out
    assert "between 0/60 and 54/60 = 0.0 to 90.0 % of all rows (54 undecided)" in out
    assert "run incomplete, 54 rows pending" in out
    said = as_data(partial.reading)["robust_accuracy"]
    assert (said["count"], said["value"], said["interval"]) == (None, None, None)
    assert (said["at_least"], said["at_most"], said["of"]) == (0, 54, 60)


def test_markdown_of_a_partial_run_calls_no_figure_a_bound_that_it_is_not(tmp_path: Path) -> None:
    def stop(moment: object) -> None:
        raise KeyboardInterrupt

    from brinell.evaluation import open_run

    with pytest.raises(KeyboardInterrupt):
        small_result(tmp_path / "run", observer=stop)
    claim = open_run(tmp_path / "run").claim
    assert "at most" not in claim
