"""Sockets of a run: addresses and ports, the run's key, messages, rejected connections."""
