"""A model server for the canary example: it answers each instance with the version of its model.

It follows the contract of a custom container: Vertex AI sets AIP_HTTP_PORT and the routes.
"""

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

VERSION = sys.argv[1]


class Handler(BaseHTTPRequestHandler):
    """Reports health from the start; a POST is a prediction."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer the health check."""
        self.reply({})

    def do_POST(self) -> None:
        """Answer every instance."""
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.reply({"predictions": [f"version {VERSION}" for _ in request["instances"]]})

    def reply(self, value: object) -> None:
        """Send JSON."""
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing per request: lines on stderr would be errors."""


print(f"version {VERSION} is ready", flush=True)
ThreadingHTTPServer(("", int(os.environ["AIP_HTTP_PORT"])), Handler).serve_forever()
