"""Writes to the terminal: only changed cells, no faster than the line can transmit them."""
