"""Claims: what a run, a paper or a leaderboard says of a model, and what follows from two of them."""
