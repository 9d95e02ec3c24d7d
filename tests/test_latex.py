"""The tables for a paper: they balance, and print other people's text as it is."""

import re
from pathlib import Path

import pytest

from brinell.evaluation import open_run
from brinell.report.latex import escaped, latex_report
from brinell.result import Reading
from noisy_models import carried_out, data, noisy
from small_runs import small_run
from test_reports import with_foreign

HOSTILE = r"100%_a & #1 ~x ^2 \input{x} $y$ } {[opt] < > | ` “é”"


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Reading:
    return open_run(small_run(tmp_path_factory.mktemp("run"))).reading


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("100 %", r"100 \%"),
        ("a_b", r"a\_b"),
        ("R&D #1 $", r"R\&D \#1 \$"),
        ("~^", r"\textasciitilde{}\textasciicircum{}"),
        ("{x}", r"\{x\}"),
        ("\\input", r"\textbackslash{}input"),
        ("[67.5, 73.2]", "{[}67.5, 73.2{]}"),
        ("a\n\n b\t", "a b"),
        ("é ≤ 漢", r"é $\leq$ ?"),
    ],
)
def test_special_characters_print_as_themselves(text: str, printed: str) -> None:
    assert escaped(text) == printed


def check(text: str) -> list[list[str]]:
    """Braces and environments are balanced, no special character is bare; the cells of each line of the tables."""
    bare = re.sub(r"\\[%_&#${}\\]", "", text)
    depth = 0
    for character in "\n".join(line for line in bare.splitlines() if not line.startswith("% needs")):
        depth += (character == "{") - (character == "}")
        assert depth >= 0
        assert character not in "%_#~^"
    assert depth == 0
    begun, ended = re.findall(r"\\begin{(\w+)}", text), re.findall(r"\\end{(\w+)}", text)
    assert begun == ["table", "tabular"] * 2
    assert ended == ["tabular", "table"] * 2
    return [re.split(r"(?<!\\)&", line) for line in text.splitlines() if line.endswith(r" \\")]


def test_tables_have_their_columns(reading: Reading) -> None:
    text = latex_report(reading)
    lines = check(text)
    attacks = [line for line in lines if len(line) == 7]
    assert {len(line) for line in lines} == {3, 7}
    assert len(attacks) == 1 + len(reading.manifest.suite["attacks"])
    assert [int(cell.strip(" \\").replace(",", "")) for cell in attacks[1][1:]][:2] == [
        reading.figures.stages[0].given,
        reading.figures.stages[0].broke,
    ]


def test_the_caption_is_the_claim(reading: Reading) -> None:
    assert rf"\caption{{{escaped(reading.claim.line())}." in latex_report(reading)
    assert escaped(str(reading.figures.robust_accuracy)) in latex_report(reading)
    assert "upper bound" in latex_report(reading)


def test_foreign_text_breaks_nothing(reading: Reading) -> None:
    text = latex_report(with_foreign(reading, HOSTILE))
    check(text)
    assert r"\textbackslash{}input\{x\}" in text
    assert r"\input" not in text


def test_a_randomised_model(tmp_path: Path) -> None:
    run = carried_out(tmp_path / "run", noisy(), data(8))
    lines = check(latex_report(run.reading))
    assert lines[1][0].strip() == "Expected robust accuracy"
    assert {len(line) for line in lines} == {3, 6}
