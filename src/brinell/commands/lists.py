"""Commands that say what there is."""

from brinell.commands.app import app, print_list
from brinell.errors import EXIT_DONE


@app.command
def models() -> int:
    """List the built-in models, a line each."""
    from brinell import zoo

    cards = [zoo.card(name) for name in zoo.names()]
    print_list(
        ("model", "clean", "threat", "what it is"),
        [
            (
                f"builtin:{card.name}",
                f"{card.clean_correct}/{card.clean_rows}",
                f"{card.norm} {card.eps:g}",
                card.description,
            )
            for card in cards
        ],
    )
    return EXIT_DONE


@app.command
def suites(*, show: str | None = None) -> int:
    """List the suites, a line each; any attack's name is a suite too.

    Parameters
    ----------
    show
        Print one suite whole, as a file to start your own from.
    """
    from brinell.suites.suite import load_suite, suite_names

    if show is not None:
        import tomli_w

        print(tomli_w.dumps(load_suite(show).table()), end="")
        return EXIT_DONE
    lines: list[tuple[str, ...]] = []
    for suite in map(load_suite, suite_names()):
        costs = {norm: suite.within(norm).passes() for norm in suite.norms()}
        for cost in dict.fromkeys(costs.values()):
            norms = ", ".join(norm for norm in costs if costs[norm] == cost)
            lines.append(
                (f"{suite.name} v{suite.version}", norms, f"{cost.forwards:,} + {cost.backwards:,}", suite.summary)
            )
    print_list(("suite", "norms", "passes a standing row", "what it is"), lines)
    return EXIT_DONE


@app.command
def attacks() -> int:
    """List the attacks, a line each."""
    from brinell.attacks.catalogue import ATTACKS

    print_list(
        ("attack", "norms", "what it is"),
        [(name, ", ".join(kind.norms), kind.summary) for name, kind in ATTACKS.items()],
    )
    return EXIT_DONE
