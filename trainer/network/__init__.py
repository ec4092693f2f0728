"""Sockets that the parts of a run share: addresses and ports, messages, rejected connections."""
