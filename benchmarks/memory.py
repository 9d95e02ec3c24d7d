"""Peak memory for 1,000 and for 10,000 rows, nearly all of which break: witnesses must not be held.

    python benchmarks/memory.py

Each run is its own process (`brinell run` on the built-in rows, repeated). Printed beside the peaks: the size of the
inputs themselves, which are held, and of the witnesses on disk, which are not.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from brinell import zoo


def peak_mb(folder: Path, copies: int) -> tuple[float, float, float]:
    """Peak resident memory of the run, size of its inputs, size of its witnesses with their clean inputs; in MB."""
    x, y = zoo.load_rows()
    data = folder / f"{copies}.npz"
    np.savez(data, x=np.tile(x, (copies, 1, 1, 1)), y=np.tile(y, copies))
    out = folder / f"run{copies}"
    options = [
        "--model",
        "builtin:fmnist-standard",
        "--data",
        str(data),
        "--suite",
        "pgd",
        "--quiet",
        "--out",
        str(out),
    ]
    child = os.fork()
    if child == 0:
        subprocess.run([sys.executable, "-m", "brinell", "run", *options], stdout=subprocess.DEVNULL, check=True)
        (folder / "peak").write_text(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))  # kB
        os._exit(0)
    os.waitpid(child, 0)
    peak = float((folder / "peak").read_text()) / 1024
    witnesses = sum((out / name).stat().st_blocks * 512 for name in ("witnesses.npy", "originals.npy")) / 2**20
    return peak, copies * x.nbytes / 2**20, witnesses


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        for copies in (1, 10):
            peak, inputs, witnesses = peak_mb(Path(name), copies)
            print(
                f"{1000 * copies:>6,} rows: peak {peak:.0f} MB; inputs {inputs:.0f} MB, witnesses on disk {witnesses:.0f} MB"
            )


if __name__ == "__main__":
    main()
