"""Compare replicas of the state, which must be identical, at intervals, to detect faulty machines."""
