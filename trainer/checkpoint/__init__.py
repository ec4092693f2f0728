"""Checkpoints of a run: written during training, and restored from the nodes' disks or a remote store."""
