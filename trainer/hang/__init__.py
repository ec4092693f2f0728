"""Hangs: a node's supervisor detects them and reports the rank and the source line that cause them."""
