"""Checks that every request passes: authentication, access, faults."""
