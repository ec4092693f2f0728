"""Replicas of the state that must be equal, compared now and then: memory or arithmetic may be faulty."""
