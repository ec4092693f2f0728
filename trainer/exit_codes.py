"""Exit codes of a training process and of a node's supervisor. A signal n is 128 + n, as in a shell."""

from __future__ import annotations

DONE = 0
USAGE = 2
"""Wrong flags or data: a restart would not help."""
PREEMPTED = 75
"""EX_TEMPFAIL: stopped by a signal after a checkpoint was saved; a restart continues."""
RENDEZVOUS_FAILED = 76
"""The other nodes did not join in time."""
PEER_LOST = 77
"""Another node ended the attempt, or it ended before the training processes started."""
SAVE_FAILED = 74
"""EX_IOERR: all steps are done, the last checkpoint is not saved; another attempt repeats the last steps."""
STORE_UNAVAILABLE = 69
"""EX_UNAVAILABLE: the place of --upload-dir did not answer for --store-timeout: at the start its checkpoints
are not listed, at the end the last one is not uploaded. Trying again later may help."""
STOPPED = 143
"""128 + SIGTERM: stopped without a checkpoint."""
FINAL = frozenset({DONE, USAGE, PREEMPTED, STOPPED, STORE_UNAVAILABLE})
"""Codes after which another attempt is pointless."""
