"""Lines of containers: their times, what was read before, their entries, and how streams merge."""
