"""Which examples are evaluated: every row keeps its index, nothing is guessed, nothing is dropped."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from brinell.errors import BadInput
from brinell.rows import load_rows, rows_of

X = np.random.default_rng(0).random((12, 3, 2, 5), dtype=np.float32)
Y = np.arange(12) % 4


def chosen(selection: str) -> list[int]:
    rows = rows_of(X, Y, selection=selection)
    assert rows.total == 12
    np.testing.assert_array_equal(rows.x, X[rows.index])
    np.testing.assert_array_equal(rows.y, Y[rows.index])
    return rows.index.tolist()


@pytest.mark.parametrize(
    ("selection", "index"),
    [
        ("all", list(range(12))),
        ("0:12", list(range(12))),
        ("2:5", [2, 3, 4]),
        (":3", [0, 1, 2]),
        ("9:", [9, 10, 11]),
        ("0:12:5", [0, 5, 10]),
        ("7", [7]),
        ("3,11,5:8", [3, 11, 5, 6, 7]),
        ("5,4,3", [5, 4, 3]),  # in the order written
        (" 1 , 2 ", [1, 2]),
    ],
)
def test_selection(selection: str, index: list[int]) -> None:
    assert chosen(selection) == index


@pytest.mark.parametrize(
    ("selection", "got"),
    [
        ("12", "the part '12'"),
        ("0:13", "the part '0:13'"),
        ("3,40", "the part '40'"),
        ("-1", "the part '-1'"),
        ("0:-1", "the part '0:-1'"),
        ("first", "the part 'first'"),
        ("", "the part ''"),
        ("1,,2", "the part ''"),
        ("1:2:3:4", "the part '1:2:3:4'"),
        ("0:12:0", "the part '0:12:0'"),
        ("0:12:-1", "the part '0:12:-1'"),
        ("4:4", "no rows"),
        ("5:2", "no rows"),
        ("3,1:5", "a row twice"),
        ("all,3", "a row twice"),
    ],
)
def test_selection_that_cannot_be_had(selection: str, got: str) -> None:
    with pytest.raises(BadInput) as error:
        chosen(selection)
    assert error.value.got == got
    assert "12 rows" in error.value.expected


def test_empty_data_set_is_refused() -> None:
    with pytest.raises(BadInput, match="no rows"):
        rows_of(X[:0], Y[:0])


@pytest.mark.parametrize(
    ("labels", "note"),
    [
        (Y, None),
        (Y.tolist(), None),
        (Y.astype(np.int32), None),
        (Y.astype(np.uint8), None),
        (Y.astype(np.float32), "labels read from float32 as whole numbers"),
        (Y[:, None], None),
        (np.eye(4)[Y], "labels read as one-hot of 4 classes"),
        (np.eye(4, dtype=bool)[Y], "labels read as one-hot of 4 classes"),
        (torch.tensor(Y), None),
        (torch.eye(4, dtype=torch.bfloat16)[Y], "labels read as one-hot of 4 classes"),
    ],
    ids=["int64", "list", "int32", "uint8", "float", "column", "one-hot", "one-hot bool", "torch", "one-hot bfloat16"],
)
def test_labels_in_every_form_are_the_same(labels: Any, note: str | None) -> None:
    """auto-attack#74 and its kin: one-hot, int32 and float labels each crashed."""
    rows = rows_of(X, labels)
    np.testing.assert_array_equal(rows.y, Y)
    assert rows.y.dtype == np.int64
    assert rows.notes == ((note,) if note else ())


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.eye(4)[Y] * 0.9, "not one-hot"),
        (np.ones((12, 4)), "not one-hot"),
        (Y + 0.5, "whole numbers"),
        (np.where(Y == 3, np.nan, Y), "whole numbers"),
        (np.array(["cat"] * 12), "whole numbers"),
        (Y[:11], "one label for each row"),
        (np.zeros((12, 2, 2)), "one label for each row"),
    ],
    ids=["soft", "many-hot", "halves", "NaN", "text", "too few", "maps"],
)
def test_labels_that_are_none(labels: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        rows_of(X, labels)


@pytest.mark.parametrize(
    "x",
    [torch.tensor(X), torch.tensor(X, requires_grad=True), np.asfortranarray(X), X.astype(">f4"), X.tolist()],
    ids=["torch", "torch with grad", "Fortran order", "big endian", "list"],
)
def test_inputs_in_every_form_are_the_same(x: Any) -> None:
    rows = rows_of(x, Y)
    np.testing.assert_allclose(rows.x, X, rtol=1e-7)
    if not isinstance(x, list):
        assert rows.digest() == rows_of(X, Y).digest()


def test_pixels_are_divided_where_that_is_said() -> None:
    pixels = np.arange(12 * 4, dtype=np.uint8).reshape(12, 1, 2, 2) * 5
    rows = rows_of(pixels, Y, scale=255)
    np.testing.assert_array_equal(rows.x, pixels.astype(np.float32) / np.float32(255))
    assert rows.x.dtype == np.float32
    assert rows.notes == ("inputs read as float32 and divided by 255",)
    untouched = rows_of(pixels, Y)  # not guessed: preflight refuses them
    assert untouched.x.max() == pixels.max()


def test_precision_is_kept() -> None:
    assert rows_of(X, Y).x.dtype == np.float32
    assert rows_of(X.astype(np.float64), Y).x.dtype == np.float64
    assert rows_of(X.astype(np.float64), Y, scale=2).x.dtype == np.float64
    halved = rows_of(X.astype(np.float16), Y)
    assert halved.x.dtype == np.float32
    assert halved.notes == ("inputs read as float32",)
    np.testing.assert_array_equal(rows_of(torch.tensor(X).bfloat16(), Y).x, torch.tensor(X).bfloat16().float().numpy())


def test_channels_last_is_declared() -> None:
    last = np.moveaxis(X, 1, -1)
    rows = rows_of(last, Y, layout="channels-last")
    np.testing.assert_array_equal(rows.x, X)
    assert rows.digest() == rows_of(X, Y).digest()
    assert rows.notes == ("inputs turned from channels-last to channels-first",)
    np.testing.assert_array_equal(rows_of(last, Y).x, last)


def test_digest_sees_every_change() -> None:
    digests = {rows_of(X, Y).digest()}
    moved = X.copy()
    moved[7, 0, 0, 0] = np.nextafter(moved[7, 0, 0, 0], np.float32(2))
    digests.add(rows_of(moved, Y).digest())
    digests.add(rows_of(X, np.where(np.arange(12) == 7, (Y + 1) % 4, Y)).digest())
    digests.add(rows_of(X, Y, selection="1,0,2:12").digest())
    digests.add(rows_of(X.astype(np.float64), Y).digest())
    digests.add(rows_of(X.reshape(12, -1), Y).digest())
    assert len(digests) == 6


def test_row_keeps_its_digest_whatever_is_selected() -> None:
    assert rows_of(X, Y, selection="7").digests()[0] == rows_of(X, Y).digests()[7]


@pytest.mark.parametrize("names", [("x", "y"), ("images", "labels"), ("x_test", "y_test"), ("X", "Y")])
def test_npz(tmp_path: Path, names: tuple[str, str]) -> None:
    np.savez(tmp_path / "rows.npz", **dict(zip(names, (X, Y), strict=True)))
    rows = load_rows(str(tmp_path / "rows.npz"), "2:4")
    np.testing.assert_array_equal(rows.x, X[2:4])
    assert rows.index.tolist() == [2, 3]
    assert rows.source.endswith("rows.npz")


def test_npz_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no such file"):
        load_rows(str(tmp_path / "absent.npz"))
    np.savez(tmp_path / "names.npz", inputs=X, y=Y)
    with pytest.raises(BadInput, match=r"\['inputs', 'y'\].*np\.savez"):
        load_rows(str(tmp_path / "names.npz"))
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(BadInput, match=r"an \.npz file"):
        load_rows(str(tmp_path / "broken.npz"))
    np.savez(tmp_path / "pickled.npz", x=np.array([{"a": 1}], dtype=object), y=Y)
    with pytest.raises(BadInput, match="allow_pickle"):  # a data file must not run code
        load_rows(str(tmp_path / "pickled.npz"))


SOURCE = """
import numpy as np
pair = (np.zeros((3, 2), "f4"), [0, 1, 1])
def load():
    return pair
def raises():
    raise OSError("disk on fire")
alone = np.zeros(3)
"""


def test_python_file(tmp_path: Path) -> None:
    (tmp_path / "my_rows.py").write_text(SOURCE, "utf-8")
    for name in ("load", "pair"):
        rows = load_rows(f"{tmp_path}/my_rows.py:{name}")
        assert rows.x.shape == (3, 2)
        assert rows.y.tolist() == [0, 1, 1]
    for name, message in (
        ("raises", "OSError when called: disk on fire"),
        ("alone", r"expected a pair \(x, y\)"),
        ("absent", "it has np, pair, load, raises, alone"),
    ):
        with pytest.raises(BadInput, match=message):
            load_rows(f"{tmp_path}/my_rows.py:{name}")
    with pytest.raises(BadInput, match="no file"):
        load_rows(f"{tmp_path}/absent.py:load")
    with pytest.raises(BadInput, match="not of the form"):
        load_rows(f"{tmp_path}/my_rows.py")
    (tmp_path / "syntax.py").write_text("def", "utf-8")
    with pytest.raises(BadInput, match="SyntaxError while loading"):
        load_rows(f"{tmp_path}/syntax.py:load")


def test_builtin_rows() -> None:
    rows = load_rows("builtin:fmnist", "990:")
    assert rows.x.shape == (10, 1, 28, 28)
    assert (rows.total, rows.index[0]) == (1000, 990)
    with pytest.raises(BadInput, match="builtin:fmnist"):
        load_rows("builtin:cifar")


@pytest.mark.parametrize("x", [np.float32(1), X[:, 0, 0, 0], np.array([["a"]] * 12), X > 0.5, X + 1j])
def test_inputs_that_are_none(x: Any) -> None:
    with pytest.raises(BadInput):
        rows_of(x, Y)
