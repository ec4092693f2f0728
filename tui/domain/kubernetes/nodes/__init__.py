"""Nodes of a cluster: their machines, and how much of them a job's pods use."""
