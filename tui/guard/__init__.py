"""The guard: one process a user that watches jobs while no console is open, and sends alerts."""
