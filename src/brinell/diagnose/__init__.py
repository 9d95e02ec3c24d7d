"""Whether a figure can be trusted: checks over a run's record."""
