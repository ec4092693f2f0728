"""What is measured of a run, and where metrics go besides the structured log."""
