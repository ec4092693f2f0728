"""The tabs that only a pipeline has."""
