"""What is imported: named arrays from files or from Python, by the names of a tool, on the data's scale."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brinell.arrays import named_arrays, plain
from brinell.errors import BadInput
from brinell.imports.names import TOOLS, Handed, Tool, handed_over
from brinell.manifest import file_digests
from brinell.rows import Layout
from brinell.threat import Threat

CHANNELS = (1, 3, 4)
"""How many channels an image may have."""


@dataclass(frozen=True, eq=False)
class Source:
    """What is imported, as it was given."""

    tool: Tool
    arrays: Mapping[str, NDArray[Any]]
    """By the names of the tool."""
    files: Mapping[str, str]
    """SHA-256 of each file; empty for arrays from Python."""
    scale: float = 1.0
    """Inputs and points of the file are divided by this first."""
    layout: Layout = "as-is"
    """How their axes are ordered."""

    def handed(self, threat: Threat) -> Handed:
        """What the arrays are, on the data's scale and in its layout.

        Raises
        ------
        BadInput
            If something is missing or does not fit, or images look channels-last and were not declared so.
        """
        return in_layout(handed_over(self.tool, self.arrays, threat), self.scale, self.layout)


def source_of(tool: str, files: Sequence[Path], *, scale: float = 1.0, layout: Layout = "as-is") -> Source:
    """What some files hold.

    Raises
    ------
    BadInput
        If the tool is unknown or a file cannot be read.
    """
    arrays = named_arrays(files)
    digests = {str(path): file_digests(path.parent, [path.name])[path.name] for path in files}
    return Source(_tool(tool), arrays, digests, scale, layout)


def source_from(tool: str, arrays: Mapping[str, object], layout: Layout = "as-is") -> Source:
    """What is handed over in Python.

    Raises
    ------
    BadInput
        If the tool is unknown.
    """
    return Source(_tool(tool), plain(arrays), {}, layout=layout)


def in_layout(handed: Handed, scale: float, layout: Layout) -> Handed:
    """Inputs and points divided by ``scale``, channels first.

    Raises
    ------
    BadInput
        If images look channels-last and were not declared so, or the other way round.
    """
    shape = handed.x_adv.shape
    if len(shape) == 4:
        last, first = shape[-1] in CHANNELS, shape[1] in CHANNELS
        if (last and not first and layout == "as-is") or (first and not last and layout == "channels-last"):
            looks = "channels-last" if last else "channels-first"
            raise BadInput(
                f"points of the {handed.tool} file",
                got=f"the shape {shape}, which looks {looks}",
                expected="(row, channel, height, width)" if last else "(row, height, width, channel)",
                remedy="Give --layout channels-last to have them turned." if last else "Leave out --layout.",
            )

    def turned(array: NDArray[Any] | None) -> NDArray[Any] | None:
        if array is None:
            return None
        wide = np.dtype(np.float64 if array.dtype == np.float64 else np.float32)
        scaled = np.divide(array.astype(wide), scale, dtype=wide) if scale != 1.0 else array.astype(wide)
        return np.ascontiguousarray(np.moveaxis(scaled, -1, 1)) if layout == "channels-last" else scaled

    points = turned(handed.x_adv)
    assert points is not None
    return replace(handed, x_adv=points, x=turned(handed.x), raw=turned(handed.raw))


def _tool(name: str) -> Tool:
    for tool in TOOLS:
        if tool == name:
            return tool
    raise BadInput("tool", got=repr(name), expected=", ".join(TOOLS), remedy="Choose one; `arrays` is for any other.")
