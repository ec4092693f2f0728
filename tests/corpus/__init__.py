"""Recorded inputs that tests and scores read."""
