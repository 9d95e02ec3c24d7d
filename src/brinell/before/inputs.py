"""Whether rows and radius are on the scale of the box."""

import numpy as np

from brinell.errors import BadInput
from brinell.readiness import Readiness
from brinell.rows import Rows
from brinell.threat import Threat


def check_inputs(rows: Rows, threat: Threat) -> None:
    """Refuse inputs that are not finite or lie outside the box."""
    flat = rows.x.reshape(len(rows), -1)
    finite = np.isfinite(flat).all(axis=1)
    if not finite.all():
        raise BadInput(
            "inputs",
            got=f"NaN or infinity in rows {some(rows.index[~finite])}",
            expected="finite numbers",
            remedy="Repair these rows, or select others with `rows`.",
        )
    outside = (flat < threat.low).any(axis=1) | (flat > threat.high).any(axis=1)
    if outside.any():
        smallest, largest = float(flat.min()), float(flat.max())
        raise BadInput(
            "inputs",
            got=f"values from {smallest:g} to {largest:g}; {int(outside.sum())} rows lie outside: "
            f"{some(rows.index[outside])}",
            expected=f"the box [{threat.low:g}, {threat.high:g}]",
            remedy=_scale_remedy(smallest, largest),
        )


def _scale_remedy(smallest: float, largest: float) -> str:
    if smallest >= 0 and 1.5 < largest <= 255:
        return "These look like pixels: divide them by 255 (`scale = 255`)."
    if smallest < 0:
        return (
            "These look normalised: give inputs before normalisation and make that part of the model, "
            "or state the true bounds with `low` and `high`."
        )
    return "State the true bounds with `low` and `high`."


def check_eps(rows: Rows, threat: Threat, ready: Readiness) -> None:
    """Refuse a radius that reaches across the whole box; note one that looks like another scale."""
    width = threat.high - threat.low
    dimension = int(np.prod(rows.x.shape[1:]))
    across = {"linf": width, "l2": width * dimension**0.5, "l1": width * dimension}[threat.norm]
    if threat.eps > across:
        raise BadInput(
            "eps",
            got=f"{threat.eps_text} in {threat.norm}",
            expected=f"at most {across:g}, the reach of the box [{threat.low:g}, {threat.high:g}]",
            remedy=f"If pixels are meant, write {float(threat.eps):g}/255.",
        )
    spread = float(rows.x.max() - rows.x.min())
    if spread < width / 100:
        ready.find(
            "input-spread",
            f"inputs spread over {spread:g} of a box {width:g} wide: are `low` and `high` on the inputs' scale?",
        )


def some(values: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]") -> str:
    """The first few of some numbers, and how many there are in all."""
    first = ", ".join(str(int(value)) for value in values[:5])
    return first if len(values) <= 5 else f"{first}, … ({len(values)} in all)"
