"""Windows and patterns, pixel by pixel."""

import math

import pytest
import torch

from brinell.windows import Image, Sides, covered, square_of, two_pyramids


@pytest.mark.parametrize(
    ("shape", "image"),
    [
        ((3, 32, 32), (3, 32, 32)),
        ((1, 2, 24), (1, 2, 24)),
        ((5, 40), (5, 1, 40)),
        ((784,), (1, 1, 784)),
        ((), (1, 1, 1)),
        ((3, 4, 5, 6), (3, 20, 6)),
    ],
)
def test_how_inputs_are_read(shape, image):
    assert Image.of(shape) == image
    assert math.prod(image) == math.prod(shape)


@pytest.mark.parametrize(
    ("height", "width", "area", "sides"),
    [
        (28, 28, 0.8 * 784, (25, 25)),  # 25.04
        (28, 28, 0.8 / 512 * 784, (1, 1)),  # 1.1
        (28, 28, 0.1, (1, 1)),
        (4, 4, 0.8 * 16, (4, 4)),  # 3.6
        (2, 24, 0.8 * 48, (2, 19)),  # 6.2 is higher than 2; 38.4 pixels are 19.2 columns
        (24, 2, 0.8 * 48, (19, 2)),
        (2, 24, 0.1 * 48, (2, 2)),  # 2.2
        (2, 24, 0.05 * 48, (2, 2)),  # 1.5
        (1, 784, 0.8 * 784, (1, 627)),
        (1, 784, 0.8 / 512 * 784, (1, 1)),
        (1, 1, 0.8, (1, 1)),
    ],
)
def test_a_window_is_a_square_where_one_fits(height, width, area, sides):
    assert square_of(Image(3, height, width), area) == sides


@pytest.mark.parametrize(
    ("height", "width", "area", "sides"),
    [
        (28, 28, 600.0, (25, 25)),  # 24.5
        (28, 28, 100.0, (11, 11)),
        (28, 28, 1.0, (3, 3)),
        (4, 4, 12.8, (4, 4)),  # 3.6, rounded and made odd: 5 does not fit
        (2, 24, 1.0, (2, 3)),
        (2, 24, 38.4, (2, 19)),
        (1, 2, 1.0, (1, 2)),
        (2, 2, 1.0, (2, 2)),
    ],
)
def test_a_window_of_odd_width_and_at_least_three(height, width, area, sides):
    assert square_of(Image(1, height, width), area, least=3, odd=True) == sides


def test_pixels_of_a_window():
    """In an image of 3 lines of 4 pixels: from line 1, column 2, two lines of two; and from the first pixel."""
    top, left = torch.tensor([1, 0]), torch.tensor([2, 0])
    assert covered(top, left, Sides(2, 2), Image(1, 3, 4)).tolist() == [[6, 7, 10, 11], [0, 1, 4, 5]]
    assert covered(top, left, Sides(1, 2), Image(1, 3, 4)).tolist() == [[6, 7], [0, 1]]


def test_a_pattern_by_hand():
    """Three by three, one line above two: in L2 the middle carries layers of 1 and 1/4, all around it 1/4."""
    above, beside = two_pyramids(Sides(3, 3), "l2").view(2, 3, 3)
    line = torch.tensor([0.25, 1.25, 0.25], dtype=torch.float64)
    block = torch.tensor([[0.25, 0.25, 0.25], [0.25, 1.25, 0.25]], dtype=torch.float64)
    expected = torch.cat([line[None] / line.norm(), -block / block.norm()]) / math.sqrt(2)
    assert torch.allclose(above, expected)
    assert torch.equal(beside, above.T)
    assert torch.equal(two_pyramids(Sides(1, 1), "l1"), -torch.ones(2, 1, dtype=torch.float64))


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("sides", [(3, 3), (4, 4), (7, 7), (25, 25), (2, 19), (19, 2), (1, 9), (9, 1), (1, 1), (2, 2)])
def test_patterns_have_norm_one_and_two_halves_of_opposite_signs(norm, sides):
    height, width = sides
    patterns = two_pyramids(Sides(*sides), norm)
    sizes = torch.linalg.vector_norm(patterns, ord=2 if norm == "l2" else 1, dim=1)
    assert sizes.tolist() == pytest.approx([1.0, 1.0])
    above, beside = patterns.view(2, height, width)
    assert (above[: height // 2] > 0).all() and (above[height // 2 :] < 0).all()
    assert (beside[:, : width // 2] > 0).all() and (beside[:, width // 2 :] < 0).all()
    if height > 1:
        halves = above[: height // 2], above[height // 2 :]
        assert float((halves[0] ** (2 if norm == "l2" else 1)).sum()) == pytest.approx(0.5)
    # highest in the middle, falling outwards
    peak = above[height // 2 :].abs()
    middle = peak[(height - height // 2) // 2]
    assert middle.argmax() == width // 2
    assert (middle[width // 2 :].diff() <= 0).all() and (middle[: width // 2 + 1].diff() >= 0).all()
