"""Workloads: models with their training data."""
