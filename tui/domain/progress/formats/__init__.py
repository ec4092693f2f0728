"""One module per line format of a trainer."""
