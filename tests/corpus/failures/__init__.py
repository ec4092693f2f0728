"""Logs of failed runs with their truth, the scripts that made them, and a scorer."""
