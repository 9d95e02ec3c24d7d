"""What may be quoted of a smoothed classifier: one line with all that its figure depends on."""

from brinell.metrics import Proportion
from brinell.smoothing.figures import SmoothFigures
from brinell.smoothing.record import SmoothingManifest

SHORT = 12
"""Characters of a digest that are enough to tell two apart."""


def claim_line(manifest: SmoothingManifest, figures: SmoothFigures) -> str:
    """Certified accuracy at the attack's radius, or without an attack at each radius of the table, and its conditions."""
    setting, data, model = manifest.setting, manifest.data, manifest.model
    parts = [
        f"certified accuracy of g {_figure(figures)}",
        f"g: {model['source']} (fingerprint {model['fingerprint'][:SHORT]}) under Gaussian noise of sigma {setting.noise}",
        f"rows {data['selection']} of {data['source']} (digest {data['digest'][:SHORT]}), box [{manifest.low:g}, "
        f"{manifest.high:g}]",
        f"n {setting.n:,}, n0 {setting.n0:,}, alpha {setting.alpha:g} a row, seed {manifest.seed}",
        f"Brinell {manifest.environment.brinell}, {cost_line(manifest, figures)}",
    ]
    attack = figures.attack
    if attack is not None and attack.contradictions:
        parts.append(f"CONTRADICTED by the attack on {len(attack.contradictions)} rows")
    return "; ".join(parts)


def cost_line(manifest: SmoothingManifest, figures: SmoothFigures) -> str:
    """Passes and time; the checks before the first row are not among them."""
    passes = figures.passes
    most = "at most " if figures.attack is not None and figures.attack.errors else ""
    backwards = f" and {passes.backwards:,} backward" if passes.backwards else ""
    return f"{most}{passes.forwards:,} forward{backwards} passes, {manifest.seconds:.1f} s on {manifest.environment.device}"


def _figure(figures: SmoothFigures) -> str:
    if figures.attack is not None:
        return f"at L2 radius {figures.attack.eps}, at least: {shared(figures.attack.certified)}"
    if not figures.complete:
        return f"at L2 radius 0, at least: {shared(figures.certified_at(0))}"
    shares = ", ".join(f"{radius:g}: {figures.certified_at(radius).count}" for radius in figures.table_radii())
    return f"in rows of all {figures.rows} at L2 radius {shares}"


def shared(figure: Proportion) -> str:
    """A share of all rows with its interval named."""
    if figure.value is None or figure.interval is None:
        return str(figure)
    low, high = figure.interval
    return (
        f"{figure.count}/{figure.of} = {100 * figure.value:.1f} % of {figure.denominator} ({100 * figure.level:g} % interval "
        f"{100 * low:.1f} to {100 * high:.1f} %)"
    )
