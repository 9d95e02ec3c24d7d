"""How a result is shown: one format a file. A report knows only what was read from a run's folder."""
