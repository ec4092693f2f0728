"""Check that all nodes have the same data, because each node reads its own copy and its share of one sample
order."""

from __future__ import annotations

from collections import Counter
from typing import Any

from trainer.distributed.process_group import ProcessGroup
from trainer.errors import DataError


def same_data(fingerprint: dict[str, Any], group: ProcessGroup) -> dict[str, Any]:
    """Return the `data_fingerprint` of all ranks; a collective call. Raises DataError on every rank if a
    node's data differs from that of most nodes."""
    fingerprints = [
        (node, tuple(sorted(own.items()))) for node, own in group.all_gather((group.node_rank, fingerprint))
    ]
    usual, _ = Counter(own for _, own in fingerprints).most_common(1)[0]
    others = {node: own for node, own in fingerprints if own != usual}
    if not others:
        return fingerprint
    node, own = min(others.items())
    reference = next(number for number, data in fingerprints if data == usual)
    count, expected = dict(own)["samples"], dict(usual)["samples"]
    difference = (
        f"has {count:,} samples, and node {reference} has {expected:,}"
        if count != expected
        else f"has as many samples as node {reference} ({count:,}), but different ones"
    )
    more = f" ({len(others)} nodes differ)" if len(others) > 1 else ""
    raise DataError(f"node {node} {difference}{more}: all nodes must see the same data")
