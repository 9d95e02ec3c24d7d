"""Attacks: one algorithm a file, pure."""
