"""Checkpoints: saved during training, found on the nodes' disks and in a remote store."""
