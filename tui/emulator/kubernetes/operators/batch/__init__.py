"""The Jobs of `batch/v1`."""
