"""Exit codes of a training process and of a node's supervisor. A signal n is 128 + n, as in a shell."""

from __future__ import annotations

DONE = 0
USAGE = 2
"""Flags or data can't be used: a restart would not help."""
PREEMPTED = 75
"""EX_TEMPFAIL: stopped by a signal with a checkpoint saved, so that a restart continues."""
RENDEZVOUS_FAILED = 76
"""The other nodes did not join in time."""
PEER_LOST = 77
"""Another node ended the attempt, or it ended before the training processes started."""
STOPPED = 143
"""128 + SIGTERM: stopped before there was a checkpoint to continue from."""
FINAL = frozenset({DONE, USAGE, PREEMPTED, STOPPED})
"""Codes after which another attempt is pointless."""
