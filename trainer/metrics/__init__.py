"""Measurements of a run, and the outputs of metrics besides the structured log."""
