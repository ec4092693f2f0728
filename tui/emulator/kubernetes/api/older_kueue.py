"""Kueue's older version v1beta1: requests and replies are converted to and from v1beta2, which is stored."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import yaml
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tui.domain.kubernetes.workloads import fields
from tui.emulator.kubernetes.api.checks.gate import error_response
from tui.emulator.kubernetes.api.forms import encode
from tui.emulator.kubernetes.api.request import load_yaml, read_body
from tui.emulator.kubernetes.errors import ApiError
from tui.emulator.kubernetes.resources import Obj

OLD, NEW = "kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2"


class OlderKueue:
    """ASGI middleware that serves v1beta1 by means of v1beta2."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Convert one request and its reply."""
        if scope["type"] != "http" or not scope["path"].startswith(f"/apis/{OLD}/"):
            await self._inner(scope, receive, send)
            return
        try:
            body: bytes | None = await read_body(Request(scope, receive))
        except ApiError as error:
            await error_response(error)(scope, receive, send)
            return
        # The API refuses an unreadable body itself.
        with suppress(ValueError, TypeError, yaml.YAMLError, ApiError):
            body = encode(newer(load_yaml(body))) if body else body
        start: Message = {}

        async def read() -> Message:
            nonlocal body
            if body is None:
                return await receive()
            message, body = {"type": "http.request", "body": body}, None
            return message

        async def reply(message: Message) -> None:
            nonlocal start
            if message["type"] != "http.response.body":
                start = message
                return
            data = b"".join(map(_older, message.get("body", b"").splitlines(keepends=True)))
            if start:
                size = [(b"content-length", b"%d" % len(data))]
                sized = [size[0] if name == size[0][0] else (name, text) for name, text in start["headers"]]
                await send({**start, "headers": sized})
                start = {}
            await send({**message, "body": data})

        await self._inner({**scope, "path": scope["path"].replace(OLD, NEW, 1)}, read, reply)


def newer(obj: Any) -> Any:
    """Return an object or merge patch of v1beta1 as one of v1beta2."""
    spec = dict(fields(obj, "spec"))
    if "cohort" in spec:
        spec["cohortName"] = spec.pop("cohort")
    checks = spec.pop("admissionChecks", None)
    if checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
    if "flavorFungibility" in spec:
        older = {"Preempt": "MayStopSearch", "Borrow": "MayStopSearch"}
        chosen = fields(spec, "flavorFungibility").items()
        spec["flavorFungibility"] = {name: older.get(str(value), value) for name, value in chosen}
    if not isinstance(obj, dict):
        return obj
    version = {"apiVersion": NEW} if obj.get("apiVersion") == OLD else {}
    return {**obj, **version, **({"spec": spec} if fields(obj, "spec") else {})}


def _older(line: bytes) -> bytes:
    """Convert a reply, or a line of a watch; other text stays."""
    try:
        reply = json.loads(line)
    except ValueError:
        return line
    return encode(_as_older(reply)) + (b"\n" if line.endswith(b"\n") else b"")


def _as_older(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_older(item) for item in value]
    if not isinstance(value, dict):
        return value
    below = {key: _as_older(value[key]) for key in ("items", "object", "rows") if key in value}
    obj: Obj = {**value, **below}
    if obj.get("apiVersion") == NEW:
        obj["apiVersion"] = OLD
        spec = dict(fields(obj, "spec"))
        if "cohortName" in spec:
            spec["cohort"] = spec.pop("cohortName")
        obj |= {"spec": spec} if spec else {}
    return obj
