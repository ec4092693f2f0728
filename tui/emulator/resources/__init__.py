"""Persistent resources: the service, their capacity, and the jobs that run on them."""
