"""A server on loopback that answers errors as Hugging Face Hub, Cloud Storage, W&B and others do."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def reply(self, status: int, body: object, headers: dict[str, str] | None = None) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Type", "text/html" if isinstance(body, str) else "application/json")
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def storage_error(self, status: int, message: str, reason: str) -> None:
        error = {
            "code": status,
            "message": message,
            "errors": [{"message": message, "domain": "global", "reason": reason}],
        }
        self.reply(status, {"error": error})

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length:
            self.rfile.read(length)
        path = self.path
        if path.startswith(("/storage/", "/upload/storage/", "/download/storage/")):
            self.storage(path)
        elif "meta-llama" in path or "gated" in path:
            text = "Access to model meta-llama/Llama-3.1-8B is restricted. You must have access to it and be authenticated to access it. Please log in."
            self.reply(
                401,
                {"error": text},
                {"X-Error-Code": "GatedRepo", "X-Error-Message": text, "X-Request-Id": "Root=1-674a"},
            )
        elif "forbidden-org" in path:
            text = "Access to model forbidden-org/base is restricted and you are not in the authorized list. Visit https://huggingface.co/forbidden-org/base to ask for access."
            self.reply(
                403,
                {"error": text},
                {"X-Error-Code": "GatedRepo", "X-Error-Message": text, "X-Request-Id": "Root=1-674b"},
            )
        elif "no-such-model" in path:
            self.reply(
                401,
                {"error": "Repository not found"},
                {
                    "X-Error-Code": "RepoNotFound",
                    "X-Error-Message": "Invalid username or password.",
                    "X-Request-Id": "Root=1-674c",
                },
            )
        elif "no-entry" in path:
            self.reply(
                404,
                {"error": "Entry not found"},
                {
                    "X-Error-Code": "EntryNotFound",
                    "X-Error-Message": "Entry not found",
                    "X-Request-Id": "Root=1-674d",
                },
            )
        elif "too-many" in path:
            text = "We had to rate limit your IP (34.86.12.9). To continue using our service, create a HF account or login to your existing account."
            self.reply(429, {"error": text}, {"X-Error-Message": text, "X-Request-Id": "Root=1-674e"})
        elif "stall" in path:
            time.sleep(8)
            self.reply(200, {})
        elif "unauthorized" in path:
            self.reply(401, {"error": "invalid token"})
        elif "teapot" in path:
            self.reply(404, {"error": "not found"})
        elif "busy" in path:
            self.reply(503, "<html><head><title>503 Service Temporarily Unavailable</title></head></html>")
        elif "broken" in path:
            self.reply(
                500,
                {
                    "error_code": "INTERNAL_ERROR",
                    "message": "(psycopg2.OperationalError) could not connect to server",
                },
            )
        elif path.startswith("/api/2.0/mlflow"):
            self.reply(500, {"error_code": "INTERNAL_ERROR", "message": "database is locked"})
        else:
            self.reply(503, "<html><head><title>503 Service Temporarily Unavailable</title></head></html>")

    def storage(self, path: str) -> None:
        if "missing-bucket" in path:
            self.storage_error(404, "The specified bucket does not exist.", "notFound")
        elif "private" in path:
            who = "trainer@ml-prod.iam.gserviceaccount.com"
            what = "storage.objects.create" if self.command == "POST" else "storage.objects.get"
            text = f"{who} does not have {what} access to the Google Cloud Storage object. Permission '{what}' denied on resource (or it may not exist)."
            self.storage_error(403, text, "forbidden")
        elif "hot" in path:
            text = "The object acme-hot/latest.txt exceeded the rate limit for object mutation operations (create, update, and delete). Please reduce your request rate."
            self.storage_error(429, text, "rateLimitExceeded")
        elif "down-eu" in path:
            self.storage_error(503, "We encountered an internal error. Please try again.", "backendError")
        else:
            self.storage_error(404, "No such object: train-data-eu/shards/train-00001.tar", "notFound")

    do_GET = do_POST = do_PUT = do_HEAD = do_PATCH = answer


def certificate(folder: Path) -> ssl.SSLContext:
    """A context with a certificate that its own key signs."""
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=artifacts.acme.internal",
    ]
    subprocess.run([*command, "-keyout", key, "-out", cert], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context


@contextmanager
def serving() -> Iterator[tuple[str, str]]:
    """The addresses of a running server, without and with TLS."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    secure = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    secure.daemon_threads = True
    with tempfile.TemporaryDirectory() as folder:
        secure.socket = certificate(Path(folder)).wrap_socket(
            secure.socket, server_side=True, do_handshake_on_connect=False
        )
    threading.Thread(target=secure.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", f"https://127.0.0.1:{secure.server_address[1]}"
    finally:
        server.shutdown()
        secure.shutdown()
