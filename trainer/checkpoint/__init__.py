"""Checkpoints: saved while training continues, found on the nodes' disks and in a remote store."""
