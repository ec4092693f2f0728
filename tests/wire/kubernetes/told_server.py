"""An HTTP server on loopback that answers as it is told, and a kubeconfig for it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Answer = Callable[[Request], Awaitable[Response]]
EVERY = ["GET", "POST", "PUT", "PATCH", "DELETE"]


def status(
    code: int, reason: str, message: str, headers: dict[str, str] | None = None, **details: Any
) -> Response:
    """A refusal as an API server words it."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return JSONResponse({**body, "message": message, "details": details}, code, headers)


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[str]:
    """Serve until left; the address."""
    app = Starlette(routes=[Route("/{path:path}", answer, methods=EVERY)])
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    task = asyncio.create_task(server.serve([listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        await task
        listening.close()


def kubeconfig(folder: Path, server: str, **user: Any) -> str:
    """A kubeconfig file with one context, `here`."""
    file = folder / "kubeconfig"
    file.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "clusters": [{"name": "gke_p_l/c 1", "cluster": {"server": server}}],
                "users": [{"name": "me", "user": user or {"token": "first"}}],
                "contexts": [
                    {"name": "here", "context": {"cluster": "gke_p_l/c 1", "user": "me", "namespace": "team"}}
                ],
            }
        )
    )
    return str(file)
