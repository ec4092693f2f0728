"""Background work of a screen: named, grouped, and never the end of the console."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from textual.dom import DOMNode


def background(
    node: DOMNode, work: Callable[[], Coroutine[Any, Any, None]], group: str, *, exclusive: bool = True
) -> None:
    """Run `work` on the event loop; with `exclusive`, what the group was doing is given up.

    The function and not its coroutine is handed over: one that is given up before it starts is then no
    coroutine that was never awaited. An error becomes `Worker.StateChanged`, which the app shows.
    """
    node.run_worker(
        work,  # type: ignore[arg-type]
        name=group,
        group=group,
        exclusive=exclusive,
        exit_on_error=False,
    )
