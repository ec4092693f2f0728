"""Background work of a screen, named and grouped; an error never ends the console."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from textual.dom import DOMNode

from tui.screens.containment import ContainingApp


def background(
    node: DOMNode, work: Callable[[], Coroutine[Any, Any, None]], group: str, *, exclusive: bool = True
) -> None:
    """Run `work` on the event loop. `exclusive` cancels other work of the group.

    The function is passed instead of its coroutine, because a coroutine that is cancelled before its start
    would stay unawaited. The pane or screen of the node, or the app (`ContainingApp`), shows an error.
    """

    async def contained() -> None:
        try:
            await work()
        except Exception as error:
            # Textual reports a worker's error only to the node itself, where nothing handles it.
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
