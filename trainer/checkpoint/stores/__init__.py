"""Where checkpoints are uploaded: a Cloud Storage bucket, or a folder on another disk."""
