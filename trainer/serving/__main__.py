"""`python -m trainer.serving [CHECKPOINT]`: serve predictions over HTTP, as Vertex AI endpoints require.

CHECKPOINT is a folder or gs://…, by default $AIP_STORAGE_URI. $AIP_HTTP_PORT, $AIP_HEALTH_ROUTE and
$AIP_PREDICT_ROUTE set the port and the routes. The server listens after loading the model.

In a container it listens on all addresses: Vertex AI forwards only authorized requests. If $VXTUI_LISTEN is a
loopback address, it serves only processes of its own user.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType
from typing import Any

from trainer import exit_codes
from trainer.errors import CheckpointError, DataError, UsageError
from trainer.network.addresses import LISTEN, is_loopback, peer_user
from trainer.serving.answerer import ServedModel, open_answerer
from trainer.structured_log import emit

MAX_REQUEST = 16 << 20
"""Maximum size of a request in bytes; Vertex AI's own limit for a public endpoint is 1.5 MB."""
_MAX_DIGITS = 12


class PredictionServer(ThreadingHTTPServer):
    """Serves one model, one prediction at a time, because a prediction uses all cores, or the GPU."""

    daemon_threads = True

    def __init__(self, answerer: ServedModel, env: Mapping[str, str]) -> None:
        self.answerer, self.lock = answerer, threading.Lock()
        self.health = env.get("AIP_HEALTH_ROUTE") or "/health"
        self.predict = env.get("AIP_PREDICT_ROUTE") or "/predict"
        host = env.get(LISTEN) or "0.0.0.0"
        self._checks_user = is_loopback(host)
        super().__init__((host, int(env.get("AIP_HTTP_PORT") or 8080)), _Handler)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Return whether the client may send requests; a connection of another user is closed unread."""
        host, port = client_address
        return not self._checks_user or peer_user(host, port, self.server_port) == os.getuid()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 600
    """Seconds after which a silent connection is closed."""
    server: PredictionServer

    def do_GET(self) -> None:
        """Answer the health check."""
        is_health = self.path == self.server.health
        self._reply(200 if is_health else 404, {} if is_health else {"error": "no such path"})

    def do_POST(self) -> None:
        """Answer a prediction request."""
        text = self.headers.get("Content-Length") or "0"
        length = (
            int(text) if text.isascii() and text.isdigit() and len(text) < _MAX_DIGITS else MAX_REQUEST + 1
        )
        if length > MAX_REQUEST:
            self.close_connection = True
            self._reply(413, {"error": f"the request must have a length of at most {MAX_REQUEST:,} bytes"})
            return
        body = self.rfile.read(length)
        if self.path != self.server.predict:
            self._reply(404, {"error": "no such path"})
            return
        try:
            self._reply(200, {"predictions": self._predictions(body)})
        except DataError as error:
            self._reply(400, {"error": str(error)})

    def _predictions(self, body: bytes) -> list[dict[str, Any]]:
        try:
            request = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise DataError(f"the request must be JSON: {error}") from error
        instances = request.get("instances") if isinstance(request, dict) else None
        if not isinstance(instances, list):
            raise DataError('the request must be a JSON object with a list: {"instances": [INSTANCE, …]}')
        with self.server.lock:
            return self.server.answerer.answer(instances)

    def version_string(self) -> str:
        """Return an empty version, because the `Server` header is visible to any client."""
        return "-"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, because the platform counts the requests."""

    def _reply(self, status: int, value: Mapping[str, Any]) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> int:
    """Serve until SIGTERM; return the exit code."""
    uri = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("AIP_STORAGE_URI", "")
    if not uri:
        emit("error", "no model: set a checkpoint or AIP_STORAGE_URI", severity="ERROR")
        return exit_codes.USAGE
    signal.signal(signal.SIGTERM, _end)
    try:
        answerer = open_answerer(uri)
        server = PredictionServer(answerer, os.environ)
    except (CheckpointError, UsageError, OSError) as error:
        emit("error", str(error), severity="ERROR")
        return exit_codes.USAGE
    with server:
        emit("phase", f"serving {uri} on port {server.server_port}", phase="serving")
        server.serve_forever()
    return exit_codes.DONE


def _end(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(exit_codes.DONE)


if __name__ == "__main__":
    sys.exit(main())
