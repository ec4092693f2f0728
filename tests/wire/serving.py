"""Models and endpoints through the official clients, and a server that answers predictions."""

from __future__ import annotations

import re
import sys
from typing import Any

from google.cloud.aiplatform_v1.services.endpoint_service import EndpointServiceAsyncClient
from google.cloud.aiplatform_v1.services.endpoint_service.transports import (
    EndpointServiceGrpcAsyncIOTransport,
)
from google.cloud.aiplatform_v1.services.model_service import ModelServiceAsyncClient
from google.cloud.aiplatform_v1.services.model_service.transports import ModelServiceGrpcAsyncIOTransport
from google.cloud.aiplatform_v1.services.prediction_service import PredictionServiceAsyncClient
from google.cloud.aiplatform_v1.services.prediction_service.transports import (
    PredictionServiceGrpcAsyncIOTransport,
)

from tests.wire.control import PARENT

SERVER = r"""
import json, os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.reply(200 if self.path == os.environ["AIP_HEALTH_ROUTE"] else 404, b"{}")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path != os.environ["AIP_PREDICT_ROUTE"]:
            return self.reply(404, b"no such route")
        if self.headers["Content-Type"] != "application/json":
            return self.reply(200, body[::-1], "text/plain")
        asked = json.loads(body)
        first = asked["instances"][0]
        if first == "env":
            return self.answer([dict(os.environ), sys.argv[1:]])
        if first == "pid":
            return self.answer([os.getpid()])
        if first == "exit":
            os._exit(3)
        if isinstance(first, int):
            return self.reply(first, b"refused by the model")
        self.answer([[each, asked.get("parameters")] for each in asked["instances"]])

    def answer(self, predictions):
        self.reply(200, json.dumps({"predictions": predictions}).encode())

    def reply(self, status, body, kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

print("serving", os.environ["AIP_DEPLOYED_MODEL_ID"], flush=True)
ThreadingHTTPServer(("127.0.0.1", int(os.environ["AIP_HTTP_PORT"])), Handler).serve_forever()
"""
DEDICATED = {"machine_spec": {"machine_type": "n1-standard-2"}, "min_replica_count": 1}


def model(name: str = "m", code: str = SERVER, **more: Any) -> dict[str, Any]:
    """A model that `code` serves."""
    container = {"image_uri": "python:3.11", "command": [sys.executable, "-c", code]}
    return {"display_name": name, "container_spec": {**container, **more.pop("container", {})}, **more}


class Serving:
    """Unmodified clients over one channel."""

    def __init__(self, channel: Any) -> None:
        self.models = ModelServiceAsyncClient(transport=ModelServiceGrpcAsyncIOTransport(channel=channel))
        self.endpoints = EndpointServiceAsyncClient(
            transport=EndpointServiceGrpcAsyncIOTransport(channel=channel)
        )
        self.predictions = PredictionServiceAsyncClient(
            transport=PredictionServiceGrpcAsyncIOTransport(channel=channel)
        )

    async def upload(
        self, parent_model: str = "", model_id: str = "", parent: str = PARENT, **body: Any
    ) -> str:
        """The name of the uploaded version."""
        request = {"parent": parent, "parent_model": parent_model, "model_id": model_id}
        made = await self.models.upload_model(request={**request, "model": model(**body)}, timeout=60)
        done = await made.result()
        return f"{done.model}@{done.model_version_id}"

    async def endpoint(self, **body: Any) -> str:
        made = await self.endpoints.create_endpoint(
            parent=PARENT, endpoint={"display_name": "e", **body}, timeout=60
        )
        return str((await made.result()).name)

    async def deploy(self, endpoint: str, version: str, split: dict[str, int], **deployed: Any) -> str:
        """The id of the deployed model."""
        made = await self.endpoints.deploy_model(
            endpoint=endpoint, traffic_split=split, timeout=60,
            deployed_model={"model": version, "dedicated_resources": DEDICATED, **deployed},
        )  # fmt: skip
        return str((await made.result(timeout=120)).deployed_model.id)

    async def undeploy(self, endpoint: str, deployed_id: str, **split: int) -> None:
        made = await self.endpoints.undeploy_model(
            endpoint=endpoint, deployed_model_id=deployed_id, traffic_split=split, timeout=60
        )
        await made.result(timeout=60)

    async def split(self, endpoint: str) -> dict[str, int]:
        found = await self.endpoints.get_endpoint(name=endpoint)
        return dict(found.traffic_split)

    async def ask(self, endpoint: str, *instances: Any, **more: Any) -> Any:
        """The predictions, as JSON."""
        reply = await self.predictions.predict(endpoint=endpoint, instances=list(instances), **more)
        return list(reply.predictions)


def sentences(message: str) -> str:
    """The message of a refusal with `FIELD: TEXT` for each entry of a list of found errors."""
    return re.sub(r"\d+\.Field: (.*?); Message: ", r"\1: ", message)
