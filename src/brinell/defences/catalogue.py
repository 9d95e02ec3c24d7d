"""Which defences there are."""

from collections.abc import Iterable
from functools import cache

from brinell.defences.defence import Defence
from brinell.defences.masked import gradients, landscapes, rejecting, roundings
from brinell.defences.sound import healthy, rivals, scales
from brinell.defences.unsteady import mistakes, randomised
from brinell.errors import BadInput


@cache
def defences() -> tuple[Defence, ...]:
    """All of them, in the order in which they are shown."""
    every = (healthy, scales, gradients, roundings, landscapes, rivals, rejecting, randomised, mistakes)
    return tuple(defence for some in every for defence in some())


def defences_named(ids: Iterable[str]) -> tuple[Defence, ...]:
    """Those with these ids, in the catalogue's order.

    Raises
    ------
    BadInput
        If there is none of an id.
    """
    wanted, known = set(ids), {defence.id for defence in defences()}
    if not wanted <= known:
        raise BadInput(
            "defence",
            got=", ".join(sorted(wanted - known)),
            expected=f"some of {', '.join(sorted(known))}",
            remedy="`brinell selftest --list` lists them.",
        )
    return tuple(defence for defence in defences() if defence.id in wanted)
