"""The admin API on the Unix socket: status and faults.

`POST /` with a JSON object, `{"do": NAME, …}`::

    {"do": "status"}                → the contents of emulator.json
    {"do": "api", "verb": V, "resource": R, "kind": K, "code": N, "retry_after": S, "delay": S, "after": S,
     "lasts": S, "times": N}        → the new fault with its number
    {"do": "compact"}               → watches from an older version get 410 from now on
    {"do": "faults"}                → all faults in force
    {"do": "clear", "numbers": [N]} → the remaining faults; without numbers, all are cleared
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tui.domain.document.decoding import decode_json
from tui.emulator.kubernetes.api.checks.faults import ClusterApiFaults
from tui.emulator.kubernetes.errors import ApiError
from tui.emulator.kubernetes.objects import Objects

AdminBody = dict[str, Any]
AdminVerb = Callable[[AdminBody], AdminBody]


class KubernetesAdmin:
    """Answers requests on the Unix socket. `more` holds the requests that other modules answer, by their
    `do`.

    A handler refuses a request with ValueError.
    """

    def __init__(
        self,
        objects: Objects,
        faults: ClusterApiFaults,
        info: Callable[[], AdminBody],
        more: Mapping[str, AdminVerb] | None = None,
    ) -> None:
        self._objects, self._faults = objects, faults
        self._verbs: dict[str, AdminVerb] = {
            "status": lambda _: {**info(), "objects": objects.counts()},
            "api": lambda request: faults.add(request).fields(),
            "compact": self._compact,
            "faults": self._list,
            "clear": self._clear,
            **(more or {}),
        }

    def app(self) -> Any:
        """Return the ASGI application."""
        return Starlette(routes=[Route("/", self._answer, methods=["POST"])])

    async def _answer(self, request: Request) -> Response:
        try:
            body = decode_json(await request.body())
            verb = self._verbs.get(str(body.get("do", ""))) if isinstance(body, dict) else None
            if verb is None:
                raise ValueError(f"do must be one of {', '.join(self._verbs)}")
            return JSONResponse(verb(body))
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 400)
        except ApiError as error:
            return JSONResponse({"error": error.message}, error.code)

    def _compact(self, _request: AdminBody) -> AdminBody:
        self._objects.forget_history()
        return {"version": self._objects.version}

    def _list(self, _request: AdminBody) -> AdminBody:
        return {"api": [fault.fields() for fault in self._faults.active()]}

    def _clear(self, request: AdminBody) -> AdminBody:
        numbers = request.get("numbers", [])
        if not isinstance(numbers, list) or not all(isinstance(number, int) for number in numbers):
            raise ValueError(f"numbers must be a list of fault numbers, not {numbers!r}")
        self._faults.clear(numbers)
        return self._list(request)
