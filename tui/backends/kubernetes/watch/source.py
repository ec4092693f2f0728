"""Lists and watches objects of one type over the connection."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any

from tui.backends.errors import Unavailable
from tui.backends.kubernetes.connection import ClusterConnection, items_of, lines, next_page
from tui.domain.document.decoding import decode_json

LIST_SECONDS = 30.0


class ApiSource:
    """One type of object at a path, in one or all namespaces. The source calls `opened` when a watch is
    accepted."""

    def __init__(
        self, connection: ClusterConnection, path: str, action: str, selector: str = "", fields: str = ""
    ) -> None:
        """Set the source. `selector` selects by labels, `fields` by fields."""
        self._connection = connection
        self._path = path
        self._resource = action
        self._selectors = {"labelSelector": selector, "fieldSelector": fields or None}
        self.opened: Callable[[], None] = lambda: None

    async def page(self, limit: int, token: str) -> Mapping[str, Any]:
        """Return one page of a list. `token` comes from the previous page. Raises Expired if it is old."""
        params = {"limit": limit or None, "continue": token, **self._selectors}
        # The reflector itself lists again. A repeated call here would only delay the report of the failure.
        action = f"list the {self._resource}"
        reply = await self._connection.request(
            "GET",
            self._path,
            action=action,
            params=params,
            within=LIST_SECONDS,
            patience=2.0,
        )
        next_page(reply, token, action)
        return {**reply, "items": items_of(reply, action)}

    async def events(self, version: str, seconds: int) -> AsyncGenerator[Mapping[str, Any], None]:
        """Yield the events since a resourceVersion, as {type, object}, for at most `seconds`."""
        params = {
            "watch": True, "allowWatchBookmarks": True, "resourceVersion": version,
            "timeoutSeconds": seconds, **self._selectors,
        }  # fmt: skip
        action = f"watch the {self._resource}"
        async with self._connection.stream(self._path, action=action, params=params) as pieces:
            self.opened()
            async with aclosing(lines(pieces, action)) as event_lines:
                async for line in event_lines:
                    if not line.strip():
                        continue
                    try:
                        event = decode_json(line)
                        if not isinstance(event, dict):
                            raise TypeError("an event must be an object")
                    except (ValueError, TypeError) as error:
                        # The last line of a broken stream is incomplete.
                        raise Unavailable(f"Can't {action}: the stream broke within an event.") from error
                    yield event
