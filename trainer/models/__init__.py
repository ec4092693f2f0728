"""Workloads: models with the data that they are trained on."""
