"""One module per kind of job, named by `Kind.emulated` (tui/kinds)."""
