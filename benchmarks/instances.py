"""VNN-COMP's local-robustness instances with a known answer: what a suite breaks of them, and what it must not.

    pip install onnx
    python benchmarks/instances.py --data ../shared/data [--suite brinell] [--years 2021 2022]

An instance is a row with an eps of its own. Rows of one net and one eps are run together. ``sat``: a counterexample
exists. ``unsat``: none does, so that a row broken there is a fault, in the answer or in the tool. ``unknown``: nobody has
answered.
"""

import argparse
import csv
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from published import Graph

import brinell

FOLDERS = {"2021": "vnn", "2022": "vnn/extra2022"}
Instance = dict[str, str]


def groups(folder: Path) -> Iterator[list[Instance]]:
    """Instances of one net and one eps."""
    found: dict[tuple[str, str], list[Instance]] = {}
    with (folder / "instances.csv").open(encoding="utf-8") as file:
        for instance in csv.DictReader(file):
            found.setdefault((instance["net"], instance["eps"]), []).append(instance)
    yield from found.values()


def net_of(folder: Path, instance: Instance) -> Graph:
    scaling = [tuple(map(float, instance[key].split())) for key in ("mean", "std")]
    path = folder / instance["onnx"]
    return Graph(
        path if path.exists() else folder.parent / instance["onnx"], scaling[0] or (0.0,), scaling[1] or (1.0,)
    ).eval()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--suite", default="brinell")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--years", nargs="+", choices=FOLDERS, default=list(FOLDERS))
    given = options.parse_args()
    torch.set_num_threads(1)
    print("| year | net | sat, broken | unsat, broken | unknown, broken | passes an instance | CPU s an instance |")
    print("|---|---|--:|--:|--:|--:|--:|")
    for year in given.years:
        folder = given.data / FOLDERS[year]
        images = np.load(folder / "boxes.npz")
        asked: Counter[tuple[str, str]] = Counter()
        broken: Counter[tuple[str, str]] = Counter()
        passes: Counter[str] = Counter()
        seconds: Counter[str] = Counter()
        faults = []
        for instances in groups(folder):
            net = instances[0]["net"]
            x = np.stack([images[f"{one['dataset']}_images"][int(one["image_row"])] for one in instances])
            y = np.array([int(one["label"]) for one in instances])
            start = time.process_time()
            result = brinell.evaluate(
                net_of(folder, instances[0]), x, y, threat=brinell.Threat("linf", instances[0]["eps"]),
                suite=given.suite, seed=given.seed, batch_size=250,
            )  # fmt: skip
            seconds[net] += time.process_time() - start
            passes[net] += result.figures.passes.forwards + result.figures.passes.backwards
            for one, record in zip(instances, result.rows, strict=True):
                assert record.status in ("broken", "standing"), record
                asked[net, one["expected"]] += 1
                broken[net, one["expected"]] += record.status == "broken"
                if record.status == "broken" and one["expected"] != "sat":
                    faults.append(f"{one['id']} ({one['expected']}) broken, margin {record.margin:.3g}")
                if record.status == "standing" and one["expected"] == "sat":
                    faults.append(f"{one['id']} (sat) stands")
        for net in passes:
            count = sum(asked[net, answer] for answer in ("sat", "unsat", "unknown"))
            cells = [f"{asked[net, answer]}, {broken[net, answer]}" for answer in ("sat", "unsat", "unknown")]
            print(f"| {year} | {net} | {' | '.join(cells)} | {passes[net] / count:,.0f} | {seconds[net] / count:.1f} |")
        for fault in faults:
            print(f"- {fault}")


if __name__ == "__main__":
    main()
