"""Servers of this machine's emulators."""
