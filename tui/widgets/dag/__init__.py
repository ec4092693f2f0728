"""A graph of tasks as boxes and lines."""
