"""Findings about which rows an imported result is of, and with which labels. None of them needs a model."""

import numpy as np

from brinell.checks.finding import Finding
from brinell.imports.evidence import Evidence


def rows_of_the_data(evidence: Evidence) -> Finding:
    """Raised if the file has fewer rows than the data, or other ones.

    Means that rows were dropped: those that the model had wrong, a last batch, those on which the attack failed. Without
    them the share of rows that stand is of other rows. They are not attacked here, stand, and stay in the denominator.
    Rows that the data lack are left out. Do: attack all rows, or select those that were with --rows.
    """
    missing = evidence.of - len(np.unique(evidence.place))
    said = [f"{missing} of the data's {evidence.of} rows are not in the file"] if missing else []
    if evidence.strangers:
        said.append(f"{evidence.strangers} of the file's {evidence.strangers + len(evidence)} are not among the data's")
    return Finding("rows of the data", not said, "; ".join(said) or f"all {evidence.of} are in the file")


def order_of_the_rows(evidence: Evidence) -> Finding:
    """Raised if the file has its rows in another order than the data.

    Means that a loader shuffled them. Each point was put to its row by the clean input; without `x` in the file it would
    stand beside another row. Do: attack without shuffling, or save `x`.
    """
    check = "order of the rows"
    if evidence.handed.x is None:
        return Finding(check, None, "the file has no clean inputs: its rows were taken in the order of the data")
    _, first = np.unique(evidence.place, return_index=True)  # copies are another finding
    back = int((np.diff(evidence.place[np.sort(first)]) < 0).sum())
    return Finding(check, not back, f"not that of the data: it goes back {back} times" if back else "as in the data")


def each_row_once(evidence: Evidence) -> Finding:
    """Raised if the file has a row more often than the data.

    Means that results were joined, or that a sampler drew with replacement: such a row counts twice in their numbers. All
    of its points are tried here, and it counts once. Do: remove copies.
    """
    copies = len(evidence) - len(np.unique(evidence.place))
    detail = f"{copies} rows of the file are copies of others" if copies else f"{len(evidence)} rows, each once"
    return Finding("each row once", not copies, detail)


def form_of_labels(evidence: Evidence) -> Finding:
    """Raised if the file's labels are one-hot.

    They are read as the positions of the ones. Compared with class indices as they are, every row would differ. Do:
    nothing, or save class indices.
    """
    handed = evidence.handed
    if handed.y is None:
        return Finding("form of the labels", None, "the file has no labels")
    if handed.one_hot:
        return Finding("form of the labels", False, f"one-hot of {handed.y.shape[1]} classes, read as class indices")
    return Finding("form of the labels", True, "class indices")
