"""A result that was made elsewhere becomes a run, and is checked on the way."""
