"""Parallelism strategies, and the files of their checkpoints."""
