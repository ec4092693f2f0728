"""Parses lines of output: JSON objects, or text that may indicate its severity."""
