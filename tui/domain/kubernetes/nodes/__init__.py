"""Nodes of a cluster: their machines, and the shares that a job's pods use."""
