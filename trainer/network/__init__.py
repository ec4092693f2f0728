"""Sockets that the parts of a run share: addresses and ports, the run's key, messages, rejected
connections."""
