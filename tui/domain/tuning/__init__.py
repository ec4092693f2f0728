"""Hyperparameter tuning: the study of a tuning job, its ordered trials, the importance of parameters."""
