"""Completion and validation of objects, and the definitions that describe them."""
