"""Destinations of uploaded checkpoints: a Cloud Storage bucket, or a folder on another disk."""
