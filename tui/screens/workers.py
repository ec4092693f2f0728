"""Background work of a screen: named and grouped; an error never ends the console."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from textual.dom import DOMNode


def background(
    node: DOMNode, work: Callable[[], Coroutine[Any, Any, None]], group: str, *, exclusive: bool = True
) -> None:
    """Run `work` on the event loop; with `exclusive`, other work of the group is cancelled.

    The function is passed, not its coroutine: if it is cancelled before it starts, no coroutine is left that
    was never awaited. An error becomes `Worker.StateChanged`, which the app shows.
    """
    node.run_worker(
        work,  # type: ignore[arg-type]
        name=group,
        group=group,
        exclusive=exclusive,
        exit_on_error=False,
    )
