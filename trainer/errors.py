"""Errors whose messages give the user the failure, its reason and the remedy."""

from __future__ import annotations


class UsageError(Exception):
    """A wrong flag; the message gives the flag, the reason and the remedy."""


class OwnCodeError(UsageError):
    """An error in the user's own code; the message has its location. The traceback is recorded too."""


class DataError(Exception):
    """The data can't be read; the message gives the path and the reason."""


class CheckpointError(Exception):
    """A checkpoint can't be written or read; the message gives the path and the reason."""


class ReplicaError(Exception):
    """Replicas of the state differ, because of faulty memory or arithmetic. The message names the ranks."""


class PlaceUnavailableError(Exception):
    """A checkpoint store did not answer in time; the message gives the location, the reason and the remedy. A
    retry may succeed."""


_TORCH_WRITER = "enforce fail at inline_container"
"""Text in the error of torch.save for a failed or short write; the error does not name the cause."""


def one_line(error: BaseException) -> str:
    """Return the error in one line; an error of torch.distributed.checkpoint is replaced by the first rank's
    error."""
    failures = getattr(error, "failures", None)
    if failures:
        rank, (inner, _) = next(iter(failures.items()))
        return f"rank {rank}: {one_line(inner)}"
    if isinstance(error, CheckpointError):
        return str(error)
    if isinstance(error, OSError):
        return error.strerror or str(error)
    text = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    if _TORCH_WRITER in text:
        return f"a file was not written completely; the disk may be full ({text})"
    return text
