"""Ranks, process groups, devices, and the values that ranks exchange in each step."""
