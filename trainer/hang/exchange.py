"""The supervisors' messages about a hang, over the connections of the rendezvous.

A follower requests a report, or answers node 0, which collects the records of all nodes. An answer is
compressed and split into parts; a peer can't make this node read more than `_MAX_JSON` bytes.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

_PART = 64 << 10
_MAX_PARTS = 128
_MAX_JSON = 32 << 20
_OTHER_THREADS = 8
"""Number of threads per rank, besides the main thread, that remain when an overlong answer is shortened."""


def request(trigger: str, seconds: float, usual: float, phase: str) -> dict[str, Any]:
    """Return the request for a report: a follower's ranks make no progress, or a user requests their
    state."""
    return {"request": trigger, "seconds": seconds, "usual": usual, "phase": phase}


def collect(incident: int) -> dict[str, Any]:
    return {"collect": incident}


def answers(incident: int, records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages with a node's records."""
    data = _packed(records)
    if len(data) > _PART * _MAX_PARTS:
        data = _packed([_shortened(record) for record in records])
    parts = [data[start : start + _PART] for start in range(0, len(data), _PART)][:_MAX_PARTS]
    return [
        {"answer": incident, "part": number, "parts": len(parts), "data": part}
        for number, part in enumerate(parts)
    ]


def _packed(records: Sequence[Mapping[str, Any]]) -> str:
    return base64.b64encode(zlib.compress(json.dumps(list(records)).encode(), 6)).decode()


def _shortened(record: Mapping[str, Any]) -> dict[str, Any]:
    main = [thread for thread in record["threads"] if thread["main"]]
    others = [thread for thread in record["threads"] if not thread["main"]]
    return {**record, "threads": [*main, *others[:_OTHER_THREADS]], "workers": []}


class NodeAnswer:
    """The parts of one node's answer that have arrived."""

    def __init__(self) -> None:
        self._parts: dict[int, str] = {}

    def add(self, message: Mapping[str, Any]) -> list[dict[str, Any]] | None:
        """Return the records when all parts have arrived. Raises ValueError for a message that is not an
        answer."""
        number, count, data = message.get("part"), message.get("parts"), message.get("data")
        if not isinstance(number, int) or not isinstance(count, int) or not isinstance(data, str):
            raise ValueError("part, parts and data are missing")
        if not 0 <= number < count <= _MAX_PARTS or len(data) > _PART:
            raise ValueError(f"part {number} of {count} with {len(data)} characters")
        self._parts[number] = data
        if len(self._parts) < count:
            return None
        try:
            unpacking = zlib.decompressobj()
            packed = base64.b64decode("".join(self._parts[index] for index in range(count)), validate=True)
            text = unpacking.decompress(packed, _MAX_JSON)
            if unpacking.unconsumed_tail:
                raise ValueError(f"more than {_MAX_JSON >> 20} MiB")
            records = json.loads(text)
        except (binascii.Error, zlib.error, KeyError, RecursionError) as error:
            raise ValueError(f"the answer can't be unpacked: {error}") from error
        if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
            raise ValueError("the answer must be a list of records")
        return records
