"""The tabs that only a tuning job has."""
