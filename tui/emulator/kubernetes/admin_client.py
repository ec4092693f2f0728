"""One request to what only this machine's Kubernetes has: its status, faults. Standard library only."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from typing import Any

from tui.emulator.admin_client import AdminError
from tui.emulator.paths import StateDir


def admin_call(state: StateDir, request: Mapping[str, Any], *, timeout: float = 10.0) -> dict[str, Any]:
    """Send `request`, e.g. `{"do": "status"}` (`api.admin`), and return the answer (blocking).

    Raises:
        AdminError: with the server's own sentence.
    """
    connection = _UnixConnection(str(state.socket), timeout)
    try:
        connection.request("POST", "/", json.dumps(dict(request)), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        answer = json.loads(reply.read())
    except TimeoutError as error:
        raise AdminError("DEADLINE_EXCEEDED", f"no answer within {timeout:g} s") from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise AdminError("UNAVAILABLE", f"can't ask {state.socket}: {error}") from error
    finally:
        connection.close()
    if reply.status != http.client.OK:
        code = "NOT_FOUND" if reply.status == http.client.NOT_FOUND else "INVALID_ARGUMENT"
        raise AdminError(code, str(answer.get("error", reply.reason)))
    return dict(answer)


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
