"""`python -m trainer.serving [CHECKPOINT]`: serve predictions over HTTP, as Vertex AI endpoints require.

CHECKPOINT is a folder or gs://…, by default $AIP_STORAGE_URI. The port and the routes are those of
$AIP_HTTP_PORT, $AIP_HEALTH_ROUTE and $AIP_PREDICT_ROUTE. The server listens once the model is loaded.
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
from trainer.serving.answerer import ServedModel, open_answerer
from trainer.structured_log import emit

MAX_REQUEST = 16 << 20
"""Most bytes of a request; Vertex AI's own limit for a public endpoint is 1.5 MB."""


class PredictionServer(ThreadingHTTPServer):
    """Serves one model, one prediction at a time: each uses all cores, or the GPU."""

    daemon_threads = True

    def __init__(self, answerer: ServedModel, env: Mapping[str, str], host: str = "0.0.0.0") -> None:
        self.answerer, self.lock = answerer, threading.Lock()
        self.health = env.get("AIP_HEALTH_ROUTE") or "/health"
        self.predict = env.get("AIP_PREDICT_ROUTE") or "/predict"
        super().__init__((host, int(env.get("AIP_HTTP_PORT") or 8080)), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: PredictionServer

    def do_GET(self) -> None:
        """Answer the health check."""
        is_health = self.path == self.server.health
        self._reply(200 if is_health else 404, {} if is_health else {"error": f"no such path: {self.path}"})

    def do_POST(self) -> None:
        """Answer a prediction."""
        length = int(self.headers.get("Content-Length") or 0)
        if length > MAX_REQUEST:
            self.close_connection = True
            self._reply(413, {"error": f"the request has {length:,} bytes; the limit is {MAX_REQUEST:,}"})
            return
        body = self.rfile.read(length)
        if self.path != self.server.predict:
            self._reply(404, {"error": f"no such path: {self.path}"})
            return
        try:
            self._reply(200, {"predictions": self._predictions(body)})
        except DataError as error:
            self._reply(400, {"error": str(error)})

    def _predictions(self, body: bytes) -> list[dict[str, Any]]:
        try:
            instances = json.loads(body)["instances"]
            if not isinstance(instances, list):
                raise TypeError("instances is not a list")
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f'the request is not {{"instances": […]}}: {error!r}') from error
        with self.server.lock:
            return self.server.answerer.answer(instances)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the platform counts the requests."""

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
        emit("error", "no model: give a checkpoint, or set AIP_STORAGE_URI", severity="ERROR")
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
