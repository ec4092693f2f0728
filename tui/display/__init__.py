"""Writes to the terminal: only what differs, no faster than the line can take it."""
