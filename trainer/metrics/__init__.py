"""Measurements of a run, and outputs of metrics in addition to the structured log."""
