"""How a run is made again: the command, and what else has to agree."""

import shlex
from typing import Any

from brinell.eps import Eps
from brinell.manifest import Manifest
from brinell.report.sections import Fact
from brinell.smoothing.setting import Setting
from brinell.spec import Spec


def reproduction_facts(manifest: Manifest) -> list[Fact]:
    """What else a repetition needs to agree on."""
    there, suite = manifest.environment, manifest.suite
    return [
        Fact("Brinell, format", f"{there.brinell}, {manifest.format}"),
        Fact("Python, torch, NumPy", f"{there.python}, {there.torch}, {there.numpy}"),
        Fact("Machine", f"{there.platform}; {there.processor}; threads: {there.threads}; {there.device}"),
        Fact("Suite", f"{suite['name']} v{suite['version']}"),
        Fact("Digest of the suite", suite["digest"], code=True),
        Fact("Seed; batch size", f"{manifest.seed}; {manifest.batch_size}"),
        Fact("Begun, ended (UTC)", f"{manifest.started}, {manifest.ended or 'not ended'}"),
        Fact("Digest of the run", manifest.seal, code=True),
    ]


def command_of(spec: Spec) -> str:
    """The command that makes the same run; options with their usual values are left out."""
    said: dict[str, Any] = {
        "model": spec.model.source,
        "data": spec.data.source,
        "norm": spec.threat.norm,
        "eps": spec.threat.eps,
        "suite": spec.suite,
        "seed": spec.seed,
    }
    if spec.surrogate is not None:
        said["surrogate"] = spec.surrogate.source
    if spec.certify is not None:
        said |= {"certify": spec.certify.method, "certify-seconds": f"{spec.certify.seconds:g}"}
    return f"brinell run {_options(said | _unusual(spec))} --out again"


def smoothing_command_of(spec: Spec, setting: Setting) -> str:
    """The command that certifies the same smoothed classifier by the same noise, and attacks it where it was attacked."""
    said: dict[str, Any] = {
        "method": "smoothing",
        "model": spec.model.source,
        "data": spec.data.source,
        "sigma": setting.noise,
        "n": setting.n,
        "n0": setting.n0,
        "alpha": setting.alpha,
        "seed": spec.seed,
    }
    if Eps(spec.threat.eps) > 0:
        said["eps"] = spec.threat.eps
    return f"brinell certify {_options(said | _unusual(spec))} --out again"


def _unusual(spec: Spec) -> dict[str, Any]:
    """Options whose values are not the usual ones."""
    usual: dict[str, tuple[object, object]] = {
        "outputs": (spec.model.outputs, "logits"),
        "device": (spec.model.device, "cpu"),
        "rows": (spec.data.rows, "all"),
        "scale": (spec.data.scale, 1.0),
        "layout": (spec.data.layout, "as-is"),
        "low": (spec.threat.low, 0.0),
        "high": (spec.threat.high, 1.0),
        "budget": (spec.budget, None),
        "batch-size": (spec.batch_size, None),
    }
    return {name: value for name, (value, unsaid) in usual.items() if value != unsaid}


def _options(said: dict[str, Any]) -> str:
    return " ".join(f"--{name} {shlex.quote(str(value))}" for name, value in said.items())
