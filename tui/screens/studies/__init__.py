"""Studies and pipelines."""
