"""The collectives of this process in torch's flight recorder, in a few kilobytes.

Since version 2.10 torch records the collectives of gloo, and those of NCCL in another recorder. Both
recorders need a buffer (TORCH_FR_BUFFER_SIZE). torch's own `torchfrtrace` can't read gloo's dumps (KeyError).
The recorder's functions are private: if another version lacks one, the report has no collectives, but still
the stacks. This module does not import torch: a process that has not imported it has no collectives.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any

BUFFER_SIZE = "TORCH_FR_BUFFER_SIZE"
"""Variable with the number of collectives that torch records; 0 turns the recorder off."""
DEFAULT_BUFFER = 1000
_MAX_ENTRIES = 64
"""Maximum number of collectives of a group that are reported; the newest are reported."""
_MAX_FRAMES = 12
_MAX_DIMENSIONS = 8
_RECORDERS = (("_dump_fr_trace", "_dump_fr_trace_json"), ("_dump_nccl_trace", "_dump_nccl_trace_json"))


def begun() -> tuple[int, bool]:
    """Return the number of collectives that this process has begun, and whether a collective is pending."""
    total, pending = 0, False
    for _, name in _RECORDERS:
        for status in _status(name):
            enqueued, completed = (
                int(status.get(f"last_{word}_collective", -1)) for word in ("enqueued", "completed")
            )
            total += max(0, enqueued)
            pending = pending or enqueued > completed
    return total, pending


def _status(name: str) -> list[Mapping[str, Any]]:
    """Return the status of each group without its collectives; the call takes 30 µs."""
    function = _function(name)
    if function is None:
        return []
    content = json.loads(function(False, False))
    groups = content.get("pg_status") if isinstance(content, dict) else None
    return list(groups.values()) if isinstance(groups, dict) else []


def oldest_pending() -> tuple[float, float]:
    """Return the start time (epoch seconds) and the timeout (seconds) of the oldest pending collective, or
    (0, 0) if none is pending."""
    pending = [entry for entry in _entries() if not _done(entry) and entry.get("timeout_ms")]
    if not pending:
        return 0.0, 0.0
    oldest = min(pending, key=lambda entry: entry["time_created_ns"] + entry["timeout_ms"] * 1_000_000)
    return oldest["time_created_ns"] / 1e9, oldest["timeout_ms"] / 1e3


def groups() -> dict[str, dict[str, Any]]:
    """Return the process groups by name: `ranks`, `title` and the newest `entries`, the oldest first."""
    groups: dict[str, dict[str, Any]] = {}
    members = _members()
    python_threads = {
        thread.ident
        for thread in threading.enumerate()
        if thread is not threading.main_thread() and not isinstance(thread, threading._DummyThread)
    }
    for entry in _entries():
        name, title = (str(word) for word in entry["process_group"])
        group = groups.setdefault(name, {"title": title, "ranks": members.get(name, []), "entries": []})
        group["entries"].append(_condensed(entry, int(entry.get("thread_id", 0)) in python_threads))
    for group in groups.values():
        del group["entries"][:-_MAX_ENTRIES]
    for name, ranks in members.items():
        groups.setdefault(name, {"title": "", "ranks": ranks, "entries": []})
    return groups


def _condensed(entry: Mapping[str, Any], background: bool) -> dict[str, Any]:
    point_to_point = bool(entry.get("is_p2p"))
    sizes = [[int(n) for n in size[:_MAX_DIMENSIONS]] for size in entry["input_sizes"][:2]]
    return {
        "order": int(entry["record_id"]),
        "seq": int(entry["p2p_seq_id" if point_to_point else "collective_seq_id"]),
        "p2p": point_to_point,
        "kind": str(entry["profiling_name"]).partition(":")[2] or str(entry["profiling_name"]),
        "sizes": sizes,
        "dtype": str((entry["input_dtypes"] or [""])[0]),
        "done": _done(entry),
        "at": entry["time_created_ns"] / 1e9,
        "background": background,
        "frames": [
            [str(frame["filename"]), int(frame["line"]), str(frame["name"])]
            for frame in entry.get("frames", ())[:_MAX_FRAMES]
        ],
    }


def _done(entry: Mapping[str, Any]) -> bool:
    """Return whether a collective ended: the state of gloo's entries stays `scheduled`, but they are retired
    at the end."""
    return bool(entry.get("retired")) or entry.get("state") == "completed"


def _entries() -> Iterator[Mapping[str, Any]]:
    for name, _ in _RECORDERS:
        function = _function(name)
        if function is not None:
            # Read all collectives with the stacks that began them, including completed collectives.
            # Unpickling is safe, because torch itself wrote the pickle.
            content = pickle.loads(function(True, True, False))
            yield from content.get("entries") or ()


def _function(name: str) -> Any:
    module = sys.modules.get("torch._C._distributed_c10d")
    return getattr(module, name, None)


def _members() -> dict[str, list[int]]:
    """Return the ranks of each group, by its name."""
    module = sys.modules.get("torch.distributed.distributed_c10d")
    members: dict[str, list[int]] = {}
    with contextlib.suppress(AttributeError, RuntimeError, TypeError):
        for group, ranks in list(module._world.pg_group_ranks.items()):  # type: ignore[union-attr]
            members[str(group.group_name)] = sorted(int(rank) for rank in ranks)
    return members
