"""False alarms: what the checks say of models that nobody here made, whose gradients are sound.

    pip install onnx
    python benchmarks/alarms.py --data ../shared/data [--rows 200] [--budget 60k]

A line a model: the outcome, what was raised, and the passes of the checks as a share of the run's.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from numpy.typing import NDArray
from published import cifar_net, mnist_a_adv, trades_mnist
from torch import nn

import brinell
from brinell import zoo
from brinell.diagnose.diagnosis import outcome_of

CIFAR = {
    "cifar_base_kw": "2/255",
    "cifar_wide_kw": "2/255",
    "cifar_deep_kw": "2/255",
    "resnet_2b": "2/255",
    "resnet_4b": "1/255",
}


def models(data: Path) -> Iterator[tuple[str, nn.Module, NDArray, NDArray, str]]:  # type: ignore[type-arg]
    x, y = zoo.load_rows()
    for name in ("fmnist-standard", "fmnist-at"):
        yield name, zoo.load_model(name), x, y, "0.1"
    for name, load in (("trades_mnist", trades_mnist), ("mnist_a_adv", mnist_a_adv)):
        yield name, *load(data), "0.3"
    for name, eps in CIFAR.items():
        yield name, *cifar_net(data, name), eps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--suite", default="brinell")
    given = parser.parse_args()
    print("| model | stands | outcome | raised | passes | of the checks before |")
    print("|---|--:|---|---|--:|--:|")
    for name, model, x, y, eps in models(given.data):
        threat = brinell.Threat("linf", eps)
        reading = brinell.evaluate(model, x[: given.rows], y[: given.rows], threat=threat, suite=given.suite).reading
        passes = reading.figures.passes
        made, before = passes.forwards + passes.backwards, passes.preflight_forwards + passes.preflight_backwards
        raised = ", ".join(one.check for one in reading.diagnoses if one.raised) or "—"
        stands = reading.figures.status["standing"]
        print(
            f"| {name} | {stands} | {outcome_of(reading.diagnoses)} | {raised} | {made:,} | {before / made:.1%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
