"""Replicas of the state that must be equal, compared from time to time: memory or arithmetic may be
faulty."""
