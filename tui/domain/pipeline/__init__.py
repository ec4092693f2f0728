"""The tasks of a pipeline: their dependencies, and their order as a tree."""
