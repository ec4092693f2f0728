"""Processing of container log lines: timestamps, known lines, entries, and merging."""
