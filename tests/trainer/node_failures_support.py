"""Kills of whole nodes."""

from __future__ import annotations

from tests.processes import end
from tests.trainer.multi_node_support import Node


def kill(node: Node) -> None:
    """Kill the whole node: supervisor, fork server and workers."""
    end(node.family())
    node.process.wait()
