"""Defences whose true robust accuracy is known: what a tool that measures robustness is measured by."""
