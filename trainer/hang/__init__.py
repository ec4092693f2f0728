"""Hangs: noticed by a node's supervisor, and reported with the rank and the source line that cause them."""
