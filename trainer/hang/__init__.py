"""Hangs: a node's supervisor notices them and reports the rank and the source line that cause them."""
