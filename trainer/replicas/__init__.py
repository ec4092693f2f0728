"""Replicas of the state that must be equal, compared from time to time to find faulty machines."""
