"""VNN-COMP's local-robustness instances, decided: holds, violated or unknown, each within a time on one core.

    pip install 'brinell[onnx]'
    nice python benchmarks/certify.py --data ../shared/data [--years 2021 2022] [--seconds 60]

An instance is a box in the net's own input units and the property that the label's score stays above the others'. ``sat``: a
counterexample exists, so that ``holds`` is a wrong answer. ``unsat``: none does, and ``violated`` is one. ``unknown``: nobody
has answered; any answer is news. Seconds are those of the processor, so that a machine that is shared changes little.
"""

import argparse
import csv
import time
from collections import Counter
from pathlib import Path

import numpy as np
import torch

from brinell.certify import decide, onnx_net
from brinell.certify.graph import network_of
from brinell.certify.vnnlib import Case, Property

FOLDERS = {"2021": "vnn", "2022": "vnn/extra2022"}
WRONG = {("sat", "holds"), ("unsat", "violated")}


def asked(lower: np.ndarray, upper: np.ndarray, label: int, classes: int) -> Property:
    """A counterexample is a point where some other score is not below the label's."""
    ends = (lower.astype(np.float64).ravel(), upper.astype(np.float64).ravel())
    gaps = np.eye(classes)[label] - np.eye(classes)
    cases = tuple(Case(*ends, gaps[j : j + 1], np.zeros(1)) for j in range(classes) if j != label)
    return Property(ends[0].size, classes, cases)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--years", nargs="+", choices=FOLDERS, default=list(FOLDERS))
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument(
        "--expected", nargs="+", choices=("sat", "unsat", "unknown"), default=["sat", "unsat", "unknown"]
    )
    options.add_argument("--nets", nargs="+", help="only these")
    given = options.parse_args()
    torch.set_num_threads(1)
    answers: Counter[tuple[str, str, str, str]] = Counter()
    spent: Counter[tuple[str, str, str]] = Counter()
    faults = []
    for year in given.years:
        folder = given.data / FOLDERS[year]
        boxes = np.load(folder / "boxes.npz")
        with (folder / "instances.csv").open(encoding="utf-8") as file:
            instances = [one for one in csv.DictReader(file) if one["expected"] in given.expected]
        instances.sort(key=lambda one: given.expected.index(one["expected"]))
        nets = {}
        for one in instances:
            if given.nets and one["net"] not in given.nets:
                continue
            if one["net"] not in nets:
                path = folder / one["onnx"]
                net = onnx_net.read(path if path.exists() else folder.parent / one["onnx"])
                nets[one["net"]] = (net, network_of(net.module, net.shape))
            net, network = nets[one["net"]]
            lower, upper = (boxes[f"{one['dataset']}_{end}"][int(one["box_row"])] for end in ("lower", "upper"))
            wall = time.monotonic()
            verdict = decide.decide(
                net, asked(lower, upper, int(one["label"]), network.nodes[-1].shape[0]), seconds=given.seconds,
                network=network, clock=time.process_time,
            )  # fmt: skip
            print(
                f"{one['id']:28} {one['expected']:8} {verdict.answer:9} {verdict.method:9} margin {verdict.margin:9.4g}"
                f"  {verdict.seconds:6.2f} CPU s  {time.monotonic() - wall:6.2f} s",
                flush=True,
            )
            answers[year, one["net"], one["expected"], verdict.answer] += 1
            spent[year, one["net"], one["expected"]] += verdict.seconds
            if (one["expected"], verdict.answer) in WRONG:
                faults.append(f"{one['id']}: {one['expected']}, answered {verdict.answer}")
    print("\n| year | net | expected | instances | holds | violated | unknown | CPU s an instance |")
    print("|---|---|---|--:|--:|--:|--:|--:|")
    for (year, net, expected), seconds in spent.items():
        row = [answers[year, net, expected, answer] for answer in ("holds", "violated", "unknown")]
        cells = " | ".join(map(str, (sum(row), *row)))
        print(f"| {year} | {net} | {expected} | {cells} | {seconds / sum(row):.2f} |")
    for year in given.years:
        for expected in given.expected:
            row = [
                sum(n for (y, _, e, a), n in answers.items() if (y, e, a) == (year, expected, answer))
                for answer in ("holds", "violated", "unknown")
            ]
            print(f"| {year} | all | {expected} | {sum(row)} | {' | '.join(map(str, row))} | |")
    print(f"\nWrong answers: {len(faults)}", *faults, sep="\n- " if faults else "")


if __name__ == "__main__":
    main()
