"""Makes calls to an API server and keeps what it answered, without what differs from one run to another."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import httpx

LIMIT = 30.0
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_SUFFIX = re.compile(r"\bA_\w{5}\b")
Keep = Callable[[Any], Any]


class Recorder:
    """Calls in one namespace; `said` has each answer under the label of its call."""

    def __init__(self, http: httpx.AsyncClient, namespace: str, user: str) -> None:
        self.http, self.namespace = http, namespace
        self._user = user
        self.said: dict[str, Any] = {}

    async def __call__(
        self,
        label: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        keep: Keep = lambda body: body,
    ) -> Any:
        """The body of the answer; `{ns}` in a path is the namespace, and `keep` chooses what is kept."""
        content = body if isinstance(body, str | bytes) else None if body is None else json.dumps(body)
        given = {"content-type": "application/json", **(headers or {})} if body is not None else headers
        path = path.replace("{ns}", self.namespace)
        reply = await self.http.request(method, path, content=content, params=params, headers=given)
        self._keep(label, reply, keep)
        return _json(reply.text)

    async def watch(
        self, label: str, path: str, count: int, params: Mapping[str, Any] | None = None
    ) -> list[Any]:
        """The first `count` events of a watch, or fewer where the server ends it."""
        path, events = path.replace("{ns}", self.namespace), []
        params = {"watch": "true", **(params or {})}
        async with asyncio.timeout(LIMIT), self.http.stream("GET", path, params=params) as reply:
            if reply.status_code != 200:
                await reply.aread()
                self._keep(label, reply, lambda body: body)
                return []
            lines = reply.aiter_lines()
            while len(events) < count and (line := await anext(lines, None)):
                events.append(json.loads(line))
        self.said[label] = {"code": 200, "events": self._normal(events)}
        return events

    def _keep(self, label: str, reply: httpx.Response, keep: Keep) -> None:
        assert label not in self.said, label
        warnings = reply.headers.get_list("warning")
        self.said[label] = {
            "code": reply.status_code,
            "type": reply.headers.get("content-type", ""),
            **({"warnings": [self._text(one) for one in warnings]} if warnings else {}),
            "body": self._normal(json.loads(json.dumps(keep(_json(reply.text))))),
        }

    def _normal(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict) and value.get("status") == "Failure":
            return refusal(value)
        if isinstance(value, dict):
            return {name: self._normal(one, name) for name, one in value.items() if one is not None}
        if isinstance(value, list):
            found = [self._normal(one) for one in value]
            if key == "managedFields":
                # When a change that changes nothing was made, differs from server to server.
                return sorted(
                    ({**one, "time": ""} for one in found), key=lambda one: json.dumps(one, sort_keys=True)
                )
            return found
        if not isinstance(value, str):
            return value
        if key == "resourceVersion" and value.isdigit() and value != "0":
            return "VERSION"
        if key == "continue":
            return "TOKEN"
        return self._text(value)

    def _text(self, text: str) -> str:
        text = text.replace(self.namespace, "NAMESPACE").replace(f'"{self._user}"', '"USER"')
        return _UID.sub("UID", _TIME.sub("TIME", _SUFFIX.sub("A_SUFFIX", text)))


def refusal(status: Mapping[str, Any]) -> dict[str, Any]:
    """What programs read of a refusal: the reason and the invalid fields, not the words."""
    causes = (status.get("details") or {}).get("causes") or []
    fields = sorted({f"{cause.get('field', '')}: {cause.get('reason', '')}" for cause in causes})
    return {"reason": status.get("reason", ""), **({"causes": fields} if fields else {})}


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
