"""Suites: one programme a file, versioned."""
