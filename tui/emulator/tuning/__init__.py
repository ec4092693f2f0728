"""Hyperparameter tuning: a study whose trials are custom jobs."""
