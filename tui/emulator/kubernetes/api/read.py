"""Answers get, list and watch requests."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from weakref import WeakSet

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tui.domain.document.decoding import decode_json
from tui.emulator.kubernetes.api.checks.options import check_list
from tui.emulator.kubernetes.api.forms import ReplyForm, form_of
from tui.emulator.kubernetes.api.label_selector import parse_labels
from tui.emulator.kubernetes.api.request import Target, is_true, version_of, whole
from tui.emulator.kubernetes.api.selectors import Matches, both, parse_fields
from tui.emulator.kubernetes.api.watches import Watch, WatchStream
from tui.emulator.kubernetes.errors import ApiError, ApiExpired, BadRequest
from tui.emulator.kubernetes.objects import Objects, Stored, StoredList
from tui.emulator.kubernetes.resources import ApiResource


class ObjectReader:
    """Answers requests that read objects."""

    def __init__(self, objects: Objects, bookmark_seconds: float) -> None:
        self._objects, self._bookmark_seconds = objects, bookmark_seconds
        self._streams: WeakSet[WatchStream] = WeakSet()

    def get(self, request: Request, resource: ApiResource, target: Target) -> Response:
        """Answer with one object."""
        stored = self._objects.stored(resource, target.namespace, target.name)
        return json_response(_form(request).single(resource, stored))

    def list(self, request: Request, resource: ApiResource, target: Target) -> Response:
        """Answer with a list or its next part."""
        query = request.query_params
        check_list(query, watch=False)
        matches, limit = _selection(query, resource), whole(query, "limit")
        version, after = self._from(query)
        items = self._stored(resource, target.namespace, version)
        if after is not None:
            items = [item for item in items if _place(item) > after]
        if matches is not None:
            items = [item for item in items if matches(item.obj)]
        more = {}
        if limit and len(items) > limit:
            rest, items = len(items) - limit, items[:limit]
            more = {"continue": _token(version, _place(items[-1]))}
            # Like the API server, don't count the rest if there is a selector.
            more |= {} if matches else {"remainingItemCount": rest}  # type: ignore[dict-item]
        return json_response(_form(request).all(resource, items, version, more))

    def watch(
        self, request: Request, resource: ApiResource, target: Target, cut_after: float = 0.0
    ) -> Response:
        """Answer with a stream of changes, which ends after `cut_after` seconds if positive."""
        query = request.query_params
        check_list(query, watch=True)
        matches = _selection(query, resource)
        if target.name:
            name = target.name
            matches = both(matches, lambda obj: obj["metadata"]["name"] == name)
        version = query.get("resourceVersion", "")
        since = _since(version)
        initial = is_true(query, "sendInitialEvents")
        if since is not None and since > self._objects.version:
            raise _too_large(since, self._objects.version)
        if initial:
            since = None
        elif since is None and "sendInitialEvents" in query:
            since = self._objects.version
        watch = Watch(
            resource,
            target.namespace,
            matches,
            _form(request),
            since,
            initial,
            is_true(query, "allowWatchBookmarks"),
            cut_after or whole(query, "timeoutSeconds"),
            self._bookmark_seconds,
        )
        stream = WatchStream(self._objects, watch)
        self._streams.add(stream)
        return StreamingResponse(stream, media_type="application/json")

    def end_watches(self) -> None:
        """End every watch before the server stops."""
        for stream in list(self._streams):
            stream.close()

    def _from(self, query: Mapping[str, str]) -> tuple[int, tuple[str, str] | None]:
        """Return the listed version, and the position after which this part begins."""
        token = query.get("continue")
        if token:
            if query.get("resourceVersion", "0") != "0":
                raise BadRequest("specifying resource version is not allowed when using continue")
            return _read_token(token)
        version_text, newest = query.get("resourceVersion", ""), self._objects.version
        version = version_of(version_text) if version_text else 0
        if version > newest:
            raise _too_large(version, newest)
        exact = query.get("resourceVersionMatch") == "Exact"
        return (version if exact else newest), None

    def _stored(self, resource: ApiResource, namespace: str, version: int) -> StoredList:
        if version == self._objects.version:
            return self._objects.all_stored(resource, namespace)
        try:
            return self._objects.stored_at(resource, namespace, version)
        except ApiExpired as error:
            raise ApiExpired(
                "The provided continue parameter is too old to display a consistent list result. You must "
                "start a new list without the continue parameter."
            ) from error


def _since(version: str) -> int | None:
    """Return the version after which a watch starts; `None` starts with the existing objects."""
    if version in {"", "0"}:
        return None
    try:
        return version_of(version)
    except BadRequest as error:
        # The API server does not report this as BadRequest for a watch.
        raise ApiError(error.message.removeprefix("invalid resource version: "), reason="") from error


def json_response(body: bytes, code: int = 200) -> Response:
    """Return a JSON reply."""
    return Response(body, code, media_type="application/json")


def _form(request: Request) -> ReplyForm:
    return form_of(request.headers.get("accept", ""), request.query_params.get("includeObject", ""))


def _selection(query: Mapping[str, str], resource: ApiResource) -> Matches | None:
    return selection(query.get("labelSelector", ""), query.get("fieldSelector", ""), resource)


def selection(labels: str, fields: str, resource: ApiResource) -> Matches | None:
    """Return the filter of both selectors. Raises BadRequest."""
    return both(parse_labels(labels), parse_fields(fields, resource))


def _place(stored: Stored) -> tuple[str, str]:
    meta = stored.obj["metadata"]
    return str(meta.get("namespace") or ""), str(meta["name"])


def _token(version: int, place: tuple[str, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps([version, *place]).encode()).decode()


def _read_token(token: str) -> tuple[int, tuple[str, str]]:
    try:
        version, namespace, name = decode_json(base64.urlsafe_b64decode(token))
        return int(version), (str(namespace), str(name))
    except ValueError as error:
        raise BadRequest(f"invalid continue token: continue key is not valid: {error}") from error


def _too_large(version: int, newest: int) -> ApiError:
    return ApiError(
        f"Timeout: Too large resource version: {version}, current: {newest}",
        code=504,
        reason="Timeout",
        details={"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]},
    )
