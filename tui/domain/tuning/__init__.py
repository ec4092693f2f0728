"""Hyperparameter tuning: the study of a tuning job, its ordered trials, and the importance of parameters."""
