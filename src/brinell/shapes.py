"""The shapes of the arrays that pass between modules, as types."""

from jaxtyping import Bool, Float, Int64
from torch import Tensor

Inputs = Float[Tensor, "row *feature"]
"""Points of the input space, in input units (images: channel, height, width)."""

Logits = Float[Tensor, "row cls"]
"""A model's scores before softmax."""

Columns = Float[Tensor, "row column"]
"""Scores with one more than there are classes, the last that of a rejection."""

Labels = Int64[Tensor, "row"]
"""A class index for each row."""

Indices = Int64[Tensor, "row"]
"""A row's index in its data set, or a position in a group of rows."""

PerRow = Float[Tensor, "row"]
"""One real number for each row."""

Rivals = Int64[Tensor, "row rival"]
"""Several class indices for each row."""

Losses = Float[Tensor, "row *rival"]
"""One real number for each row, or one for each row and rival."""

Slopes = Float[Tensor, "row *slope"]
"""A gradient by the input for each row, or one for each row and rival."""

Candidates = Float[Tensor, "row candidate *feature"]
"""Several points for each row."""

PerCandidate = Float[Tensor, "row candidate"]
"""One real number for each candidate of each row."""

Offered = Bool[Tensor, "row candidate"]
"""One truth value for each candidate of each row."""

Mask = Bool[Tensor, "row"]
"""One truth value for each row."""
