"""IBP and CROWN bounds beside those that another implementation found on the same boxes, instance by instance.

    pip install 'brinell[onnx]'
    nice python benchmarks/bounds.py --data ../shared/data [--years 2021 2022]

A bound is the least over the nine margins. The recorded ones are a prototype's in float32, equal to auto_LiRPA's CROWN (0.7.1)
or better. Higher is better, and as long as no bound passes what an attack reached, sound.
"""

import argparse
import csv
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch

from brinell.certify import crown, interval, onnx_net
from brinell.certify.ascent import Climb
from brinell.certify.chain import SLOPE_STEPS, margins
from brinell.certify.graph import network_of
from brinell.certify.region import Region

FOLDERS = {"2021": "vnn", "2022": "vnn/extra2022"}
RECORDED = {"ibp_lb": "IBP", "crown_lb": "CROWN", "crown_alpha_last_lb": "CROWN, the margins' slopes climbed"}
SAME = 1e-4
"""Relative difference within which two bounds are the same: the recorded ones have six digits and were made in float32."""


def outcome(own: float, other: float) -> str:
    """How one's own bound stands to another's."""
    if abs(own - other) <= SAME * max(1.0, abs(other)):
        return "same"
    return "higher" if own > other else "lower"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--years", nargs="+", choices=FOLDERS, default=list(FOLDERS))
    given = options.parse_args()
    torch.set_num_threads(1)
    print("| year | net | bound | instances | same | higher | lower | most below | proved | CPU s an instance |")
    print("|---|---|---|--:|--:|--:|--:|--:|--:|--:|")
    for year in given.years:
        folder = given.data / FOLDERS[year]
        boxes = np.load(folder / "boxes.npz")
        with (folder / "instances.csv").open(encoding="utf-8") as file:
            instances = list(csv.DictReader(file))
        for name in dict.fromkeys(one["net"] for one in instances):
            mine = [one for one in instances if one["net"] == name]
            path = folder / mine[0]["onnx"]
            net = onnx_net.read(path if path.exists() else folder.parent / mine[0]["onnx"])
            network = network_of(net.module, net.shape)
            counts: dict[tuple[str, str], int] = defaultdict(int)
            below: dict[str, float] = defaultdict(float)
            proved: dict[str, int] = defaultdict(int)
            spent: dict[str, float] = defaultdict(float)
            for one in mine:
                ends = (boxes[f"{one['dataset']}_{end}"][int(one["box_row"])] for end in ("lower", "upper"))
                lower, upper = (
                    torch.from_numpy(end.astype(np.float64)).view(1, *network.nodes[0].shape) for end in ends
                )
                region, specs = Region(lower, upper), margins(torch.tensor([int(one["label"])]), 10)
                with torch.no_grad():
                    begin = time.process_time()
                    by_intervals = interval.bound(network, region, specs)
                    middle = time.process_time()
                    layers = crown.layers_of(network, region)
                    by_crown = crown.bound(network, region, layers, specs)
                    end = time.process_time()
                climbed, _ = Climb(network, region, SLOPE_STEPS, 0.0).bound(layers, len(network.nodes) - 1, specs)
                last = time.process_time()
                own = {
                    "ibp_lb": float(by_intervals.min()),
                    "crown_lb": float(torch.fmax(by_crown, by_intervals).min()),
                    "crown_alpha_last_lb": float(torch.fmax(climbed, torch.fmax(by_crown, by_intervals)).min()),
                }
                taken = dict(zip(own, (middle - begin, end - middle, last - end), strict=True))
                for column, bound in own.items():
                    proved[column] += bound > 0
                    spent[column] += taken[column]
                    if one[column]:
                        counts[column, outcome(bound, float(one[column]))] += 1
                        gap = (float(one[column]) - bound) / max(1.0, abs(float(one[column])))
                        below[column] = max(below[column], gap)
            for column, title in RECORDED.items():
                row = [counts[column, word] for word in ("same", "higher", "lower")]
                if sum(row):
                    cells = " | ".join(map(str, (sum(row), *row)))
                    print(
                        f"| {year} | {name} | {title} | {cells} | {below[column]:.1e} | {proved[column]} "
                        f"| {spent[column] / len(mine):.3f} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
