"""How a defended pipeline is opened to the attacks: stated backwards (BPDA), stages, detectors, draws."""

from brinell.adaptive.backward import BPDA, Fit, bpda, identity
from brinell.adaptive.detector import Calibration, Detector
from brinell.adaptive.pipeline import Pipeline

__all__ = ["BPDA", "Calibration", "Detector", "Fit", "Pipeline", "bpda", "identity"]
