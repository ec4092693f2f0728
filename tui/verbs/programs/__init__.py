"""Verbs that hand the terminal, or a port, to another program."""
