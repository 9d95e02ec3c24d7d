"""Points on disk: one for each row of a selection, as an ``.npy`` file that any tool reads."""

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

WITNESSES = "witnesses.npy"
ORIGINALS = "originals.npy"
CLEAN_LOGITS = "clean_logits.npy"
CANDIDATES = "candidates.npy"


class PointFile:
    """An ``.npy`` array with a place for each row, written place by place and never held in memory."""

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        if not path.exists():
            partial = path.with_suffix(".partial")
            with partial.open("wb") as file:
                header = {"descr": dtype.str, "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(file, header)
                file.truncate(file.tell() + int(np.prod(shape)) * dtype.itemsize)  # zeros that take no disk
            partial.replace(path)
        with path.open("rb") as file:
            np.lib.format.read_magic(file)
            self.shape, _, self.dtype = np.lib.format.read_array_header_1_0(file)
            self._offset = file.tell()
        self._stride = int(np.prod(self.shape[1:])) * self.dtype.itemsize
        self._file = path.open("r+b", buffering=0)

    def write(self, place: int, point: NDArray[Any]) -> str:
        """Write one point; its SHA-256."""
        data = np.ascontiguousarray(point, dtype=self.dtype).tobytes()
        self._file.seek(self._offset + place * self._stride)
        self._file.write(data)
        return hashlib.sha256(data).hexdigest()

    def read(self, place: int) -> NDArray[Any]:
        """The point at a place; zeros where none was written."""
        self._file.seek(self._offset + place * self._stride)
        return np.frombuffer(self._file.read(self._stride), dtype=self.dtype).reshape(self.shape[1:])

    def flush(self) -> None:
        """Have what was written reach the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()
