"""Parts of the training loop: schedule, loss guard, evaluation, early stopping, logged events."""
