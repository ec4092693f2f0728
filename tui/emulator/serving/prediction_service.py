"""PredictionService: Predict and RawPredict, each sent to the server of one deployed model.

The status of a failed prediction follows the server's HTTP status; the service's own mapping is not
documented.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from google.api import httpbody_pb2
from google.cloud.aiplatform_v1.types import prediction_service as types
from google.protobuf import json_format
from google.rpc import code_pb2

from tui.domain.document.decoding import decode_json
from tui.emulator.experiments.kinds import ENDPOINT
from tui.emulator.experiments.resource_service import ResourceServer
from tui.emulator.experiments.store import ResourceStore
from tui.emulator.messages import Pb
from tui.emulator.rpc.methods import HttpReply, Method, WireError, failed_precondition, invalid
from tui.emulator.rpc.rest_json import http_status
from tui.emulator.serving.deployments import Deployments
from tui.emulator.serving.environment import routes
from tui.emulator.serving.http_client import Answer, ServerUnreachable
from tui.emulator.serving.load import Loads
from tui.emulator.serving.registry import ModelRegistry
from tui.emulator.serving.traffic import Chooser
from tui.emulator.vertex.operations import Operations

SERVICE = "google.cloud.aiplatform.v1.PredictionService"
MAX_REQUEST = 1_500_000
"""Maximum size of a prediction request in bytes, the documented limit of shared public endpoints."""
ANSWER_SECONDS = 60.0
"""Maximum wait for a server's response in seconds, the documented limit of those endpoints."""
LONGEST_ERROR = 1500
"""Maximum number of characters of a server's error that the status repeats."""
CLIENT_GONE = 499
JSON = "application/json"
_Predicted = types.PredictResponse.pb()

_CODES = {
    400: code_pb2.INVALID_ARGUMENT, 401: code_pb2.PERMISSION_DENIED, 403: code_pb2.PERMISSION_DENIED,
    404: code_pb2.NOT_FOUND, 408: code_pb2.DEADLINE_EXCEEDED, 409: code_pb2.ABORTED,
    413: code_pb2.INVALID_ARGUMENT, 422: code_pb2.INVALID_ARGUMENT, 429: code_pb2.RESOURCE_EXHAUSTED,
    501: code_pb2.UNIMPLEMENTED, 503: code_pb2.UNAVAILABLE, 504: code_pb2.DEADLINE_EXCEEDED,
}  # fmt: skip


@dataclass(slots=True)
class _Target:
    """The deployed model that receives a request, and the seconds its server took."""

    endpoint: Pb
    deployed: Pb
    model: Pb
    model_seconds: float = 0.0


class PredictionService:
    """RPC handlers of predictions."""

    def __init__(
        self,
        store: ResourceStore,
        operations: Operations,
        registry: ModelRegistry,
        deployments: Deployments,
        loads: Loads,
    ) -> None:
        self._endpoints = ResourceServer(ENDPOINT, store, operations)
        self._registry, self._deployments, self._loads = registry, deployments, loads
        self._choosers: dict[str, Chooser] = {}

    def methods(self) -> list[Method]:
        """Return the RPCs of this service."""
        raw = types.RawPredictRequest.pb()
        return [
            Method(SERVICE, "Predict", types.PredictRequest.pb(), _Predicted, self.predict),
            Method(SERVICE, "RawPredict", raw, httpbody_pb2.HttpBody, self.raw_predict, raw="http_body"),
        ]

    async def predict(self, request: Pb) -> Pb:
        """Send instances as JSON and return the predictions."""
        if not request.instances:
            raise invalid(("instances", "is required"))
        target = self._target(request.endpoint)
        sent: dict[str, Any] = {"instances": [_plain(instance) for instance in request.instances]}
        if request.HasField("parameters"):
            sent["parameters"] = _plain(request.parameters)
        with self._counted(target, len(request.instances)):
            answer = await self._ask(target, json.dumps(sent).encode(), JSON, "instances")
            return self._reply(target, answer)

    async def raw_predict(self, request: Pb) -> Any:
        """Send the body unchanged and return the response unchanged."""
        target = self._target(request.endpoint)
        body = request.http_body
        # Only the model can interpret the body, so the body counts as one prediction.
        with self._counted(target, 1):
            answer = await self._ask(target, body.data, body.content_type or JSON, "http_body")
        reply = httpbody_pb2.HttpBody(content_type=answer.content_type, data=answer.body)
        headers = {
            "X-Vertex-AI-Endpoint-Id": target.endpoint.name.rsplit("/", 1)[1],
            "X-Vertex-AI-Deployed-Model-Id": target.deployed.id,
        }
        return HttpReply(reply, headers)

    def _target(self, name: str) -> _Target:
        endpoint = self._endpoints.find(name)
        chosen = self._choosers.setdefault(endpoint.name, Chooser()).choose(endpoint.traffic_split)
        deployed = next((model for model in endpoint.deployed_models if model.id == chosen), None)
        if deployed is None:
            raise failed_precondition(
                endpoint.name,
                f"Endpoint {endpoint.name} doesn't have traffic_split. Deploy a model with traffic to it.",
            )
        version = f"{deployed.model.partition('@')[0]}@{deployed.model_version_id}"
        return _Target(endpoint, deployed, self._registry.version(version))

    async def _ask(self, target: _Target, body: bytes, content_type: str, field: str) -> Answer:
        """Return the server's response if it succeeded. Raises WireError."""
        if len(body) > MAX_REQUEST:
            raise invalid((field, f"the request has {len(body)} bytes; the limit is {MAX_REQUEST}"))
        began = time.monotonic()
        try:
            answer = await self._send(target, body, content_type)
        finally:
            target.model_seconds = time.monotonic() - began
        if not 200 <= answer.status < 300:
            text = answer.body.decode("utf-8", "replace").strip()[:LONGEST_ERROR]
            raise WireError(
                _CODES.get(answer.status, code_pb2.INTERNAL),
                f"The model server of {target.endpoint.name} (deployed model {target.deployed.id}) answered "
                f"HTTP {answer.status}: {text or 'no text'}",
            )
        return answer

    async def _send(self, target: _Target, body: bytes, content_type: str) -> Answer:
        subject = f"deployed model {target.deployed.id} of {target.endpoint.name}"
        server = self._deployments.server(target.endpoint.name, target.deployed.id)
        path, _ = routes(target.endpoint, target.deployed, target.model.container_spec)
        try:
            if server is None:
                raise ServerUnreachable("the model server has ended")
            return await server.post(path, body, content_type, ANSWER_SECONDS)
        except ServerUnreachable as error:
            raise WireError(
                code_pb2.UNAVAILABLE, f"No answer from the {subject}: {error}. Try again."
            ) from error
        except TimeoutError as error:
            raise WireError(
                code_pb2.DEADLINE_EXCEEDED, f"No answer from the {subject} within {ANSWER_SECONDS:g} s."
            ) from error

    @contextmanager
    def _counted(self, target: _Target, predictions: int) -> Iterator[None]:
        began = time.monotonic()
        # A client that disconnects ends the request with a CancelledError.
        status = CLIENT_GONE
        try:
            yield
            status = 200
        except WireError as error:
            status = http_status(error)
            raise
        finally:
            total = time.monotonic() - began
            model = min(total, target.model_seconds)
            took = {"total": total, "model": model, "overhead": total - model}
            where = target.endpoint, target.deployed
            self._loads.count(*where, predictions=predictions, status=status, latencies=took)

    def _reply(self, target: _Target, answer: Answer) -> Pb:
        reply = _Predicted(
            deployed_model_id=target.deployed.id,
            model=target.deployed.model,
            model_version_id=target.deployed.model_version_id,
            model_display_name=self._registry.model(target.deployed.model).display_name,
        )
        try:
            body = decode_json(answer.body)
            json_format.ParseDict({"predictions": body["predictions"]}, reply)
            if body.get("metadata") is not None:
                json_format.ParseDict(body["metadata"], reply.metadata)
        except (ValueError, KeyError, TypeError, AttributeError, json_format.ParseError) as error:
            raise WireError(
                code_pb2.INTERNAL,
                f"The model server of {target.endpoint.name} (deployed model {target.deployed.id}) must "
                'answer with a JSON object that has a list "predictions"; use RawPredict for other answers.',
            ) from error
        return reply


def _plain(value: Pb) -> Any:
    """Convert a google.protobuf.Value to JSON. Integral numbers have no fraction."""
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return {name: _plain(field) for name, field in value.struct_value.fields.items()}
    if kind == "list_value":
        return [_plain(item) for item in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() and abs(number) < 2**53 else number
    return None if kind in {None, "null_value"} else getattr(value, kind)
