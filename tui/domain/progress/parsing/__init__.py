"""Parts of a progress line: its text, its numbers, their names and meanings."""
