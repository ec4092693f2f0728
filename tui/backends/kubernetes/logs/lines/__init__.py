"""Lines of containers: their times, known lines, entries, and merging."""
