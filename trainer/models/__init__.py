"""Workloads: models with the data that they train on."""
