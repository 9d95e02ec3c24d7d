"""The Python interface: import a result at hand."""

from collections.abc import Mapping
from pathlib import Path

from torch import nn

from brinell.errors import BadInput
from brinell.evaluation import Result, evaluated_into
from brinell.handed import subject_of
from brinell.imports.importing import prepared
from brinell.imports.names import NAMES
from brinell.imports.source import source_from
from brinell.models.outputs import Outputs
from brinell.rows import Layout
from brinell.suites.suite import DEFAULT
from brinell.threat import Threat


def import_points(
    model: nn.Module,
    arrays: Mapping[str, object],
    *,
    threat: Threat,
    tool: str = "arrays",
    data: tuple[object, object] | None = None,
    outputs: Outputs = "logits",
    layout: Layout = "as-is",
    out: str | Path | None = None,
) -> Result:
    """Judge points that another tool made, and return the figures with their record and with what was found in them.

    Parameters
    ----------
    model
        Maps ``(row, *feature)`` in input units to one score per class; in evaluation mode.
    arrays
        What the tool returned, by name: ``x``, ``x_adv``, ``y`` and, if there are, ``success``, ``predictions``, ``eps``;
        the names that differ by tool are in ``docs/imports.md``.
    threat
        The threat model under which the points are judged.
    tool
        ``arrays``, ``foolbox``, ``art``, ``autoattack`` or ``torchattacks``.
    data
        All rows that were to be attacked, ``(x, y)``; those of ``arrays`` where it is not given.
    outputs
        What the model returns: ``logits``, ``probabilities`` or ``binary-logit``.
    layout
        ``channels-last`` turns inputs and points of ``arrays`` (row, height, width, channel) first.
    out
        Folder of the run, new or empty; temporary where it is not given. An import cannot be resumed.

    Raises
    ------
    BadInput
        If anything that was given would make the number wrong; nothing has been judged then.
    ModelFailed
        If the model raises on every row of a batch.
    """
    source = source_from(tool, arrays, layout)
    pair, own = data, layout
    if pair is None:
        names = NAMES[source.tool]
        x, y = (next((arrays[name] for name in of if name in arrays), None) for of in (names.x, names.y))
        if x is None or y is None:
            raise BadInput(
                f"{tool} arrays",
                got=f"the names {', '.join(sorted(arrays))}",
                expected=f"clean inputs named {' or '.join(names.x)} and labels named {' or '.join(names.y)}",
                remedy="Give both, or the rows that were attacked as `data`.",
            )
        pair = (x, y)
    else:
        own = "as-is"
    subject = subject_of(
        model, *pair, threat=threat, suite=DEFAULT, seed=0, outputs=outputs, rows="all", layout=own, size=None
    )
    imported = prepared(source, subject, apart=data is not None)
    return evaluated_into(out, imported.begun, imported.concluded)
