"""``python -m brinell``."""

from brinell.cli import entry

entry()
