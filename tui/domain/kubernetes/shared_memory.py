"""Shared memory of a pod, through which data loader processes exchange their batches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from tui.domain.kubernetes.workloads import elements

_WORKERS = re.compile(
    r"--(?:workers|num[-_]workers|dataloader[-_]num[-_]workers|loader[-_]workers)(?:=|\s+)?(?P<count>\d+)?$"
)
DEV_SHM = "/dev/shm"
SHARED_MEMORY: Mapping[str, Any] = {"name": "dshm", "emptyDir": {"medium": "Memory"}}
"""A volume in memory, mounted at `DEV_SHM`."""


def loader_workers(container: Mapping[str, Any]) -> int:
    """Return the number of data loader processes in the container's arguments."""
    words = [str(word) for key in ("command", "args") for word in elements(container, key)]
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        match = _WORKERS.fullmatch(word)
        if match is not None:
            count = match["count"] or (following if following.isdigit() else "0")
            return int(count)
    return 0
