"""Ranks, process groups and devices, and what the ranks exchange in each step."""
