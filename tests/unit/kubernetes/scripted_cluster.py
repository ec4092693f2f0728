"""Objects of one type behind a list and a watch that misbehave by a script, for tests of the reflector."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from tui.backends.errors import Unavailable
from tui.backends.kubernetes.errors import Expired

Step = tuple[str, int]
"""What happens next: `put` or `delete` object N; `cut` the stream, `end` it as the server does, `expire` all
versions so far, send a `bookmark`, or `flush` what is pending."""


class ScriptedCluster:
    """An `ApiSource`. Between two bookmarks it delivers events shuffled, and some of them again.

    A watch runs the script; when that is over, everything is delivered and `calm` is set.
    """

    def __init__(self, script: Sequence[Step], seed: int = 0, page_size: int = 3) -> None:
        self.opened: Callable[[], None] = lambda: None
        self.objects: dict[str, dict[str, Any]] = {}
        self.history: list[dict[str, Any]] = []
        self.version = 100
        self.oldest = 100
        """Watches and pages from before this version get 410."""
        self.calm = asyncio.Event()
        self.watches = 0
        self._script = list(reversed(script))
        self._random = random.Random(seed)
        self._page_size = page_size
        self._lists: dict[str, tuple[int, list[dict[str, Any]]]] = {}

    def put(self, number: int) -> None:
        key = f"team/pod-{number}"
        self.version += 1
        metadata = {"namespace": "team", "name": f"pod-{number}", "resourceVersion": str(self.version)}
        kind = "MODIFIED" if key in self.objects else "ADDED"
        self.objects[key] = {"metadata": metadata, "value": self._random.random()}
        self.history.append({"type": kind, "object": self.objects[key]})

    def delete(self, number: int) -> None:
        gone = self.objects.pop(f"team/pod-{number}", None)
        if gone is not None:
            self.version += 1
            metadata = {**gone["metadata"], "resourceVersion": str(self.version)}
            self.history.append({"type": "DELETED", "object": {**gone, "metadata": metadata}})

    async def page(self, limit: int, go_on: str) -> dict[str, Any]:
        await asyncio.sleep(0)
        if go_on:
            version, rest = self._lists.pop(go_on)
            if version < self.oldest:
                raise Expired("the continue token has expired")
        else:
            version, rest = self.version, list(self.objects.values())
        size = min(limit or len(rest), self._page_size) if limit else len(rest)
        metadata = {"resourceVersion": str(version)}
        if rest[size:]:
            token = f"{version}/{len(self._lists)}/{self._random.random()}"
            self._lists[token] = version, rest[size:]
            metadata["continue"] = token
        # The world goes on while the pages are read.
        self._run_changes(self._random.randrange(3))
        return {"items": rest[:size], "metadata": metadata}

    async def events(self, version: str, seconds: int) -> AsyncGenerator[dict[str, Any], None]:
        self.watches += 1
        if int(version) < self.oldest:
            if self._random.random() < 0.5:
                raise Expired("too old resource version")
            yield {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}
            return
        self.opened()
        since = int(version)
        while self._script:
            what, number = self._script.pop()
            if what in {"put", "delete"}:
                getattr(self, what)(number)
                continue
            if what == "expire":
                self.oldest = self.version
                continue
            batch = self._shuffled(since)
            for event in batch[: self._random.randrange(len(batch) + 1)] if what == "cut" else batch:
                yield event
            if what == "cut":
                raise Unavailable("the stream broke")
            if what == "end":
                return
            if what == "bookmark":
                since = self.version
                yield self._bookmark()
        for event in self._shuffled(since):
            yield event
        yield self._bookmark()
        self.calm.set()
        await asyncio.Event().wait()

    def _run_changes(self, most: int) -> None:
        while most and self._script and self._script[-1][0] in {"put", "delete", "expire"}:
            what, number = self._script.pop()
            if what == "expire":
                self.oldest = self.version
            else:
                getattr(self, what)(number)
            most -= 1

    def _shuffled(self, since: int) -> list[dict[str, Any]]:
        """What came since then in any order, with some events again, older ones too."""
        due = [e for e in self.history if int(e["object"]["metadata"]["resourceVersion"]) > since]
        again = self._random.sample(self.history, min(len(self.history), self._random.randrange(3)))
        found = [*due, *again]
        self._random.shuffle(found)
        return found

    def _bookmark(self) -> dict[str, Any]:
        return {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(self.version)}}}
