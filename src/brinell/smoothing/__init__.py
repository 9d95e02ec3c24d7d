"""Randomized smoothing: the classifier that answers what a base classifier answers most often under Gaussian noise."""
