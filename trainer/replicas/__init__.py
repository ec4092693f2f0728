"""Compare replicas of the state, which must be equal, at intervals, to detect faulty machines."""
