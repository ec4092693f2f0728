"""A drawing of a graph of tasks in character cells, layered from left to right."""
