"""Samples, their order, and the processes that read them ahead."""
