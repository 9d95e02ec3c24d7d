"""What each ingredient of the suite brinell buys: the suite without it, on two models with three seeds.

    pip install onnx
    python benchmarks/ablation.py --data ../shared/data [--models mnist_a_adv cifar_base_kw] [--rows 600] [--seeds 3]

Rows standing and passes a row by seed; what is left out in each line is said by its name. Square is left out of all.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import torch
from published import cifar_net, mnist_a_adv

import brinell
from brinell.attacks.catalogue import settings
from brinell.attacks.pgd import PGD
from brinell.losses import DLR
from brinell.suites.rules import Rule
from brinell.suites.suite import Suite, load_suite

EPS = {"mnist_a_adv": "0.3", "cifar_base_kw": "2/255", "cifar_deep_kw": "4/255", "resnet_4b": "2/255"}
DLR_FIRST = PGD(loss=DLR, schedule="cosine", step_size=2.0, steps=10)
Table = dict[str, object]


def without(suite: Suite, dropped: Callable[[int, Table], bool]) -> Suite:
    kept = [place for place, attack in enumerate(suite.attacks) if not dropped(place, settings(attack))]
    return replace(
        suite,
        attacks=tuple(suite.attacks[place] for place in kept),
        rules=tuple(suite.rules[place] for place in kept),
    )


def changed(suite: Suite, **fields: object) -> Suite:
    """The same with some settings in every attack that has them; attacks that become alike are left out but once."""
    seen, attacks, rules = set(), [], []
    for attack, rule in zip(suite.attacks, suite.rules, strict=True):
        new = replace(attack, **{key: value for key, value in fields.items() if key in settings(attack)})  # type: ignore[type-var]
        if (key := str(settings(new))) not in seen:
            seen.add(key)
            attacks.append(new)
            rules.append(rule)
    return replace(suite, attacks=tuple(attacks), rules=tuple(rules))


def ruled(suite: Suite, change: Callable[[Rule], Rule]) -> Suite:
    return replace(suite, rules=tuple(change(rule) if rule.pays else rule for rule in suite.rules))


def variants() -> Iterator[tuple[str, Suite]]:
    whole = without(load_suite("brinell").within("linf"), lambda place, table: table["attack"] == "square")
    yield "whole", whole
    yield "no smooth slope", changed(whole, slope="own")
    yield "no plain slope", changed(whole, slope="smooth")
    yield "no targets", without(whole, lambda place, table: "targeted" in str(table.get("loss")))
    yield "no cross-entropy", without(whole, lambda place, table: table.get("loss") == "ce")
    yield "no long runs", without(whole, lambda place, table: table.get("steps") in (90, 100))
    yield "no APGD", without(whole, lambda place, table: table["attack"] == "apgd")
    yield "constant steps", changed(whole, schedule="constant", step_size=0.25)
    yield "first run: 10 steps on DLR", replace(whole, attacks=(DLR_FIRST, *whole.attacks[1:]))
    yield "all rows a turn", ruled(whole, lambda rule: replace(rule, share=1.0))
    yield "goes on to 0.005", ruled(whole, lambda rule: replace(rule, pays=0.005))
    yield "stops at 0.1", ruled(whole, lambda rule: replace(rule, pays=0.1))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--models", nargs="+", choices=EPS, default=["mnist_a_adv", "cifar_base_kw"])
    options.add_argument("--rows", type=int, default=600)
    options.add_argument("--seeds", type=int, default=3)
    given = options.parse_args()
    torch.set_num_threads(1)
    for name in given.models:
        net, x, y = mnist_a_adv(given.data) if name == "mnist_a_adv" else cifar_net(given.data, name)
        print(
            f"\n**{name}, Linf {EPS[name]}, first {given.rows} rows**\n\n"
            "| suite | stands, by seed | passes a row |\n|---|---|---|"
        )
        for title, suite in variants():
            stands, passes = [], []
            for seed in range(given.seeds):
                result = brinell.evaluate(
                    net, x[: given.rows], y[: given.rows], threat=brinell.Threat("linf", float(Fraction(EPS[name]))),
                    suite=suite, seed=seed, batch_size=250,
                )  # fmt: skip
                spent = result.figures.passes
                stands.append(str(result.figures.status["standing"]))
                passes.append(f"{(spent.forwards + spent.backwards) / given.rows:.0f}")
            print(f"| {title} | {' · '.join(stands)} | {' · '.join(passes)} |", flush=True)


if __name__ == "__main__":
    main()
