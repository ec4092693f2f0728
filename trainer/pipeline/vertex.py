"""Clients of Vertex AI: with the job's credentials, or for the emulator that the environment names."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any

API_HOST = "AIPLATFORM_EMULATOR_HOST"
"""Target of a gRPC channel without TLS, such as unix:/path; unset in the cloud."""


class Vertex:
    """The API of one location. Its clients are imported on first use, because the import takes seconds."""

    def __init__(self, project: str, location: str) -> None:
        self.location = location
        self.parent = f"projects/{project}/locations/{location}"

    @cached_property
    def jobs(self) -> Any:
        from google.cloud.aiplatform_v1.services import job_service  # noqa: PLC0415

        return self._client(job_service, "JobService")

    @cached_property
    def models(self) -> Any:
        from google.cloud.aiplatform_v1.services import model_service  # noqa: PLC0415

        return self._client(model_service, "ModelService")

    @cached_property
    def endpoints(self) -> Any:
        from google.cloud.aiplatform_v1.services import endpoint_service  # noqa: PLC0415

        return self._client(endpoint_service, "EndpointService")

    @cached_property
    def predictions(self) -> Any:
        from google.cloud.aiplatform_v1.services import prediction_service  # noqa: PLC0415

        return self._client(prediction_service, "PredictionService")

    def _client(self, service: Any, name: str) -> Any:
        client: Any = getattr(service, f"{name}Client")
        here = os.environ.get(API_HOST)
        if not here:
            options = {"api_endpoint": f"{self.location}-aiplatform.googleapis.com"}
            return client(client_options=options)
        import grpc  # noqa: PLC0415

        transport = client.get_transport_class("grpc")
        return client(transport=transport(channel=grpc.insecure_channel(here)))
