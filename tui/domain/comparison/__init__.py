"""Compares two runs of one kind: their inputs, their results, and their differences."""
