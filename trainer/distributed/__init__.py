"""Ranks, process groups, devices, and the exchange of values in each step."""
