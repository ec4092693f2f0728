"""Requests that change objects."""
