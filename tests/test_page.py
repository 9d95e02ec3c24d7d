"""The page: whole by itself, true to the ledger, safe from other people's text, and never large."""

import base64
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import small_net
from brinell import Threat
from brinell.cli import main
from brinell.evaluation import open_run
from brinell.report import embedded
from brinell.report.page import html_page
from brinell.report.pictures import magnified, pictures_of, shown
from brinell.report.repeating import command_of
from brinell.result import Reading, read_run
from brinell.spec import read_spec
from noisy_models import carried_out, data, noisy
from small_runs import attempt_record, row_record, small_result, small_run
from test_reports import with_foreign

VOID = {"meta", "link", "img", "br", "input", "hr"}
HOSTILE = """</script><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7*7 }}{% raw %}&amp;"'`"""


class Page(HTMLParser):
    """A page, parsed: its text, its tags with their attributes, its data."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == [], f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        tag = self.open[-1] if self.open else ""
        self.texts.setdefault(tag, []).append(data)
        self.words += data.split() if tag not in ("script", "style") else []

    @property
    def said(self) -> str:
        """What a reader sees, in one line."""
        return " ".join(self.words)

    @property
    def data(self) -> Any:
        return json.loads(self.texts["script"][0])

    def values(self, attribute: str) -> list[str]:
        return [value for _, attributes in self.tags if (value := attributes.get(attribute)) is not None]


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Reading:
    return open_run(small_run(tmp_path_factory.mktemp("run"))).reading


@pytest.fixture(scope="module")
def page(reading: Reading) -> Page:
    return Page(html_page(reading))


def test_asks_nothing_of_the_network(reading: Reading) -> None:
    text = html_page(reading)
    page = Page(text)
    for address in [*page.values("src"), *page.values("href")]:
        assert address.startswith(("data:", "#")), address
    assert not {"link", "iframe", "object", "embed", "base"} & {tag for tag, _ in page.tags}
    assert re.findall(r"url\(|@import|https?:|fetch\(|XMLHttp|WebSocket|import\(", text) == []
    policy = next(a["content"] for tag, a in page.tags if tag == "meta" and "content-security-policy" in str(a).lower())
    assert policy is not None
    assert "default-src 'none'" in policy


def test_every_link_and_label_leads_somewhere(page: Page) -> None:
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    labels = [name for value in page.values("aria-labelledby") for name in value.split()]
    links = [address[1:] for address in page.values("href")]
    assert len(links) > 10
    # the dialog's title is made when it opens
    assert {*labels, *links} - {"one-h"} <= set(ids)


def test_says_what_the_run_says(reading: Reading, page: Page) -> None:
    figures, manifest = reading.figures, reading.manifest
    assert "".join(page.texts["p"]).count(reading.claim.line()) == 1
    for figure, whole in (
        (figures.robust_accuracy, "all 60 rows"),
        (figures.clean_accuracy, "all 60 rows"),
        (figures.attack_success_rate, "54 initially correct rows"),
    ):
        assert figure.value is not None
        assert figure.interval is not None
        assert f"{100 * figure.value:.1f} %" in page.said
        assert f"{figure.count} of {whole}" in page.said
        assert f"95 % interval: {100 * figure.interval[0]:.1f} to {100 * figure.interval[1]:.1f} %" in page.said
    for part in (manifest.digest, manifest.model["fingerprint"], manifest.data["digest"], manifest.suite["digest"]):
        assert part in page.said
    assert "What it left is no robust accuracy" in " ".join(page.texts["strong"])
    assert page.said.count("not declared") == 4
    assert "arXiv:1706.06083" in page.said


def test_statuses_add_up(reading: Reading, page: Page) -> None:
    cells = re.findall(r'<td class="n">([\d,]+)</td><td>', html_page(reading))[:7]
    *counts, whole = (int(cell.replace(",", "")) for cell in cells)
    assert sum(counts) == whole == 60


def test_table_holds_what_the_ledger_holds(reading: Reading, page: Page) -> None:
    columns = page.data["rows"]
    assert set(columns) == set(embedded.ROW_FIELDS)
    for place, row in enumerate(reading.rows):
        assert columns["row"][place] == row.row
        assert page.data["statuses"][columns["status"][place]] == row.status
        for field in ("clean_margin", "margin", "distance"):
            value = getattr(row, field)
            assert columns[field][place] == (None if value is None else pytest.approx(value, rel=1e-4))
    made = {int(row): len(attempts) for row, attempts in page.data["attempts"].items()}
    assert sum(made.values()) == len(reading.attempts)
    assert made == {row: sum(a.row == row for a in reading.attempts) for row in made}


def test_foreign_text_stays_text(reading: Reading) -> None:
    text = html_page(with_foreign(reading, HOSTILE))
    page = Page(text)
    assert sum(tag == "script" for tag, _ in page.tags) == 2
    assert not [a for _, a in page.tags if any(name.startswith("on") for name in a)]
    assert "".join(page.texts["h1"]) == HOSTILE
    assert HOSTILE in page.data["reasons"]
    assert "49" not in "".join(page.texts["h1"])
    assert page.values("id") == Page(html_page(reading)).values("id")


def test_pictures_are_the_points_at_eight_bits(reading: Reading, page: Page) -> None:
    found = page.data["pictures"]
    originals, witnesses = (np.load(reading.folder / f"{name}.npy") for name in ("originals", "witnesses"))
    broken = [row for row in reading.rows if row.status == "broken"]
    assert {int(row) for row in found["where"]} == {row.row for row in broken}
    for row in broken:
        sheet, line = found["where"][str(row.row)]
        raw = base64.b64decode(found["sheets"][sheet].removeprefix("data:image/png;base64,"))
        strip = np.asarray(Image.open(io.BytesIO(raw)))[4 * line : 4 * line + 4]
        x, x_adv = originals[row.place][0], witnesses[row.place][0]
        assert np.array_equal(strip[:, :4], np.round(255 * x))
        assert np.array_equal(strip[:, 8:], np.round(255 * x_adv))
        # half of 255 and the scaled change's share of the other half
        factor = found["factors"][str(row.row)]
        assert strip[:, 4:8] == pytest.approx(127.5 + 255 * factor * (x_adv - x), abs=0.6)
        assert factor == pytest.approx(0.5 / np.abs(x_adv - x).max(), rel=1e-4)


def test_a_change_is_scaled_to_half_the_box() -> None:
    change = np.array([[[0.0, 0.02], [-0.01, 0.0]]])
    picture, factor = magnified(change, 1.0)
    assert factor == 25.0
    # 0.02 × 25 = 0.5 is white, none is mid-grey (round(127.5) is even: 128), -0.25 is a quarter: round(63.75)
    assert picture[:, :, 0].tolist() == [[128, 255], [64, 128]]
    nothing, factor = magnified(np.zeros((3, 4, 4)), 1.0)
    assert factor == 1.0
    assert set(nothing.flat) == {128}


def test_a_picture_has_its_channels_last_and_the_box_from_black_to_white() -> None:
    point = np.zeros((3, 4, 5))
    point[0], point[1], point[2] = -1.0, 0.0, 3.0
    assert shown(point, -1.0, 3.0).shape == (4, 5, 3)
    assert shown(point, -1.0, 3.0)[0, 0].tolist() == [0, 64, 255]


def test_only_as_many_pictures_as_fit_and_it_is_said(reading: Reading, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brinell.report.pictures.SHEET_PIXELS", 48 * 3)  # three rows a sheet
    whole = pictures_of(reading)
    assert whole is not None
    few = pictures_of(reading, most_bytes=len(whole.sheets[0]) + len(whole.sheets[1]))
    assert few is not None
    broken = [row.row for row in reading.rows if row.status == "broken"]
    assert list(few.where) == broken[:6]
    monkeypatch.setattr("brinell.report.page.pictures_of", lambda reading: few)
    assert f"The first 6 of {len(broken)} broken rows, in the order of the selection" in Page(html_page(reading)).said


@pytest.mark.usefixtures("without_shape_checks")
def test_a_page_is_below_five_megabytes_however_much_there_is(reading: Reading) -> None:
    rows = [
        row_record(n, "error", reason=f"{n} " + "é" * 300, clean_margin=1 / 3, input_size=1 / 3, forwards=10**7)
        for n in range(20_500)
    ]
    attempts = [attempt_record(n, "error", best_margin=-1 / 3, reason=f"{n} " * 99) for n in range(20_500)]
    text = html_page(replace(reading, rows=tuple(rows), attempts=tuple(attempts)))
    assert len(text.encode()) < 5_000_000
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert len(data["rows"]["row"]) == 20_000
    assert "The table holds the first 20,000 of 20,500 rows" in text
    assert 0 < data["withAttempts"] < 20_000
    assert max(map(int, data["attempts"])) == data["withAttempts"] - 1


def test_vectors_are_not_taken_for_pictures(tmp_path: Path) -> None:
    x, y = small_net.rows()
    reading = small_result(tmp_path / "run", x=x.reshape(60, 16), y=y).reading
    page = Page(html_page(reading))
    assert page.data["pictures"] is None
    assert "Rows of shape 16 are not shown as pictures" in page.said
    assert "Patches" not in page.said


def test_where_nothing_broke(tmp_path: Path) -> None:
    page = Page(html_page(small_result(tmp_path / "run", threat=Threat("linf", 0)).reading))
    assert "Undefined: 0 broken rows." in page.said
    assert "No row is broken" in page.said
    assert not [tag for tag, _ in page.tags if tag == "svg"]


def test_a_partial_run_has_bounds_and_no_figure(tmp_path: Path) -> None:
    def stop(moment: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small_result(tmp_path / "run", observer=stop)
    page = Page(html_page(read_run(tmp_path / "run")))
    assert "between 0 and 54 of all 60 rows" in page.said
    assert "54 rows undecided: no interval" in page.said
    assert "empirical, an upper bound" not in page.said
    assert "run interrupted" in page.said


def test_a_randomised_model_has_its_own_figures(tmp_path: Path) -> None:
    result = carried_out(tmp_path / "run", noisy(), data(8))
    page = Page(html_page(result.reading))
    expected = result.reading.robust_accuracy
    assert expected.value is not None
    assert (
        f"Expected robust accuracy empirical, an upper bound {100 * expected.value:.1f} % mean over all 8 rows"
        in page.said
    )
    assert "mean over all 8 rows, 40 draws each" in page.said
    assert "no row of a randomised model falls" in page.said


def test_the_command_makes_the_same_spec(reading: Reading) -> None:
    spec = reading.manifest.spec
    assert spec is not None
    told = command_of(spec).split()
    options = dict(zip(told[2::2], told[3::2], strict=True))
    again = read_spec(
        None,
        {
            "model": {"source": options["--model"]},
            "data": {"source": options["--data"]},
            "threat": {"norm": options["--norm"], "eps": options["--eps"]},
            "suite": options["--suite"],
            "seed": int(options["--seed"]),
            "batch_size": int(options["--batch-size"]),
        },
    )
    assert again == spec


def test_the_command_writes_a_page(reading: Reading, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["report", str(reading.folder), "--format", "html"]) == 0
    assert capsys.readouterr().out == f"{reading.folder / 'report.html'}\n"
    elsewhere = tmp_path / "page.html"
    assert main(["report", str(reading.folder), "--format", "html", "--out", str(elsewhere)]) == 0
    assert capsys.readouterr().out == f"{elsewhere}\n"
    assert elsewhere.read_text("utf-8") == (reading.folder / "report.html").read_text("utf-8") == html_page(reading)


@pytest.mark.parametrize(
    ("options", "words"),
    [(["--out", "x.txt"], "--format text"), (["--format", "html", "--out", "no/x.html"], "no/x.html")],
)
def test_what_cannot_be_written_is_refused(
    reading: Reading, options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["report", str(reading.folder), *options]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert words in said.err
