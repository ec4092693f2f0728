"""Causes of failed, replaced or restarted replicas in a cluster, from all data that the API still has."""
