"""Lines as `gcloud ai custom-jobs stream-logs` prints them."""

from __future__ import annotations

STREAMED = (
    "INFO\t2026-11-28 13:33:22 +0000\tworkerpool0-0\tstep 1\n"
    "ERROR\t2026-11-28 13:33:23 +0000\tworkerpool1-12\tINFO train: loading\n"
    "a further line\n"
    "ERROR\t2026-11-28 13:33:24 +0000\tservice\tThe replica exited.\n"
    "INFO\t2026-11-28 13:33:25 +0000\tworkerpool0-0\t\n"
    "INFO\ta table of another kind\n"
)
