"""Hyperparameter tuning: the study of a tuning job, its trials in order, what the parameters matter."""
