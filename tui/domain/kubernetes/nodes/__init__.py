"""Nodes of a cluster: their machines, and what the pods of jobs take of them."""
