"""`vxtui compare`: two runs side by side."""
