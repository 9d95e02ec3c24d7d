"""Charts: places computed by hand, and curves that follow from the ledger."""

import re
from xml.etree import ElementTree

import pytest

from brinell.records import TraceRecord
from brinell.report import chart
from brinell.report.chart import Chart, Line, Point, decades, drawn, thinned, ticks
from brinell.report.curves import bounds_by_eps, least_so_far
from small_runs import row_record


def chart_of(*points: Point, **changes: object) -> Chart:
    fields: dict[str, object] = {"key": "k", "title": "t", "caption": "c", "x_label": "x", "y_label": "y"}
    return Chart(**{**fields, "lines": [Line("one", points)], **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("low", "high", "marks"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0, 0.1, [0, 0.02, 0.04, 0.06, 0.08, 0.1]),
        (-1.2, 3.4, [-1, 0, 1, 2, 3]),
        (0, 240_711, [0, 50_000, 100_000, 150_000, 200_000]),
    ],
)
def test_ticks_are_round(low: float, high: float, marks: list[float]) -> None:
    assert ticks(low, high) == marks


def test_a_logarithmic_axis_has_its_ends_and_powers_of_ten_not_too_near() -> None:
    assert decades(1, 196) == [1, 10, 100, 196]
    assert decades(1, 105) == [1, 10, 105]
    assert decades(3, 8) == [3, 8]


def test_a_line_goes_from_corner_to_corner() -> None:
    """With a floor of 0 the lowest point lies on the axis; 4 % of room are left above the highest."""
    page = ElementTree.fromstring(drawn(chart_of(Point(0, 0), Point(1, 100), floor=0.0)))
    path = next(e.attrib["d"] for e in page.iter("path") if e.attrib["class"].startswith("line"))
    numbers = [float(n) for n in re.findall(r"[\d.]+", path)]
    field = chart.HEIGHT - chart.BOTTOM - chart.TOP
    assert numbers[:2] == [chart.LEFT, chart.HEIGHT - chart.BOTTOM]
    assert numbers[2:] == pytest.approx([chart.WIDTH - chart.RIGHT, chart.TOP + field * 4 / 104], abs=0.06)


def test_steps_hold_a_value_until_the_next_and_gaps_are_left_open() -> None:
    line = Line("one", [Point(0, 0), Point(1, 1), Point(2, None), Point(3, 1)], steps=True)
    page = ElementTree.fromstring(drawn(chart_of(lines=[line])))
    path = next(e.attrib["d"] for e in page.iter("path") if e.attrib["class"].startswith("line"))
    assert re.sub(r"[\d. ]+", "", path) == "MHVM"


def test_a_chart_is_read_out_and_foreign_text_stays_text() -> None:
    page = ElementTree.fromstring(
        drawn(chart_of(Point(0, 1), Point(1, 2), title="<b>&", caption='"<i>', x_label="<x>"))
    )
    assert page.attrib["role"] == "img"
    assert page.attrib["aria-labelledby"].split() == ["k-t", "k-d"]
    assert [page.find("title").text, page.find("desc").text] == ["<b>&", '"<i>']  # type: ignore[union-attr]
    assert page.find("b") is None


@pytest.mark.parametrize("points", [(), (Point(1, None),), (Point(1, 5),), (Point(1, 0), Point(2, 0))])
@pytest.mark.parametrize("logarithmic", [False, True])
def test_little_to_draw_is_no_error(points: tuple[Point, ...], logarithmic: bool) -> None:
    ElementTree.fromstring(drawn(chart_of(*points, logarithmic=logarithmic, floor=0.0)))
    ElementTree.fromstring(drawn(chart_of(*points, logarithmic=logarithmic)))


def test_thinning_keeps_the_ends_and_the_least_of_each_stretch() -> None:
    points = [Point(x, abs(x - 37)) for x in range(100)]
    few = thinned(points, 12)
    assert len(few) <= 12
    assert (few[0], few[-1]) == (points[0], points[-1])
    assert Point(37, 0) in few
    assert thinned(points[:5], 12) == points[:5]


def test_bounds_by_eps_step_down_at_each_witness() -> None:
    """Five rows: one wrong, one in error, one standing, two broken at 0.05 and 0.1: 3/5, 2/5, 1/5."""
    rows = [
        row_record(0, "misclassified"),
        row_record(1, "error"),
        row_record(2, "standing"),
        row_record(3, "broken", distance=0.1),
        row_record(4, "broken", distance=0.05),
    ]
    assert bounds_by_eps(rows, 0.1) == [Point(0, 0.6), Point(0.05, 0.4), Point(0.1, 0.2), Point(0.1, 0.2)]
    assert bounds_by_eps([], 0.1) == []


def test_pending_rows_count_as_robust_in_a_bound_from_above() -> None:
    assert bounds_by_eps([row_record(0, "pending"), row_record(1, "misclassified")], 1.0)[-1] == Point(1.0, 0.5)


def test_least_so_far_never_rises() -> None:
    margins = [None, 3.0, 4.0, None, 1.0, 2.0]
    nothing = {"loss": None, "flat": None, "gap": None}
    records = [
        TraceRecord(row=0, turn=0, stage=0, attempt=0, step=s, margin=m, **nothing) for s, m in enumerate(margins)
    ]
    assert [point.y for point in least_so_far(records)] == [None, 3.0, 3.0, 3.0, 1.0, 1.0]
    assert [point.x for point in least_so_far(records)] == [1, 2, 3, 4, 5, 6]
