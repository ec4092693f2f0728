"""Signals to whole nodes."""

from __future__ import annotations

from contextlib import suppress

import psutil

from tests.trainer.multi_node_support import Node


def everything(node: Node, number: int) -> None:
    """Send a signal to all processes of a node."""
    own = psutil.Process(node.process.pid)
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
