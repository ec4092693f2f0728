"""Samples, their order, and the processes that read them ahead."""

from trainer.data.text import TEXT, local_path, read_bytes

__all__ = ["TEXT", "local_path", "read_bytes"]
