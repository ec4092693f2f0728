"""Background work of a screen, named and grouped; an error never ends the console."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from textual.dom import DOMNode

from tui.screens.containment import ContainingApp


def background(
    node: DOMNode, work: Callable[[], Coroutine[Any, Any, None]], group: str, *, exclusive: bool = True
) -> None:
    """Run `work` on the event loop; with `exclusive`, other work of the group is cancelled.

    The function is passed, not its coroutine: if it is cancelled before it starts, no coroutine is left that
    was never awaited. An error is shown by the pane or screen of the node, or by the app (`ContainingApp`).
    """

    async def contained() -> None:
        try:
            await work()
        except Exception as error:
            # Textual tells only the node itself of a worker's error, and nobody listens there.
            app = node.app
            if not (isinstance(app, ContainingApp) and app.contain(error, node)):
                raise

    node.run_worker(
        contained,  # type: ignore[arg-type]
        name=group,
        group=group,
        exclusive=exclusive,
        exit_on_error=False,
    )
