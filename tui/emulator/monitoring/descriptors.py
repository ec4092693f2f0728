"""The emulator's metrics and their descriptors in Monitoring.

Several sources report the names of the training metrics, but their labels are not documented: `replica_id`
and `accelerator_id`, and DELTA for the byte counters, are recalled and not verified (docs/facts/vertex.md
6.1, 6.2). Labels and kinds of the quota metrics: docs/facts/vertex.md 7.4; of the metrics of endpoints: the
documentation 'Google Cloud metrics', aiplatform.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from google.api import label_pb2, launch_stage_pb2, metric_pb2

from tui.domain.core.metric import (
    CPU,
    GPU,
    GPU_MEMORY,
    MEMORY,
    NET_IN,
    NET_OUT,
    TRAINING_PREFIX,
)
from tui.emulator.monitoring.series import Kind, ValueType

TRAINING_RESOURCE = "cloudml_job"
QUOTA_RESOURCE = "consumer_quota"
ENDPOINT_RESOURCE = "aiplatform.googleapis.com/Endpoint"
SERVING_PREFIX = "aiplatform.googleapis.com/prediction/online/"
QUOTA_LIMIT = "serviceruntime.googleapis.com/quota/limit"
QUOTA_USAGE = "serviceruntime.googleapis.com/quota/allocation/usage"

_LABELS = {
    "replica_id": "The replica, by worker pool and index: workerpool0-0.",
    "simulated": "true for simulated values; the cloud has no such label.",
    "accelerator_id": "Index of the accelerator in its machine.",
    "quota_metric": "The metric that the quota limits.",
    "limit_name": "The id of the quota.",
    "deployed_model_id": "The id of the deployed model that serves the request.",
    "spot": "Whether the deployment is on Spot VMs: True or False.",
    "model_display_name": "The display name of the model.",
    "endpoint_display_name": "The display name of the endpoint.",
    "response_code": "Class of the HTTP response: 2xx, 4xx, 5xx.",
    "latency_type": "overhead, model or total.",
}

_SERVING_LABELS = ("deployed_model_id", "spot", "model_display_name", "endpoint_display_name")
_GPU_LABELS = ("accelerator_id", "simulated")


@dataclass(frozen=True, slots=True)
class EmulatedMetric:
    """One metric type."""

    type: str
    resource: str
    display_name: str
    description: str
    labels: tuple[str, ...]
    unit: str = "1"
    kind: int = Kind.GAUGE
    value_type: int = ValueType.DOUBLE

    @property
    def training(self) -> str:
        """Name of the metric in samples, without the prefix of training metrics."""
        return self.type.removeprefix(TRAINING_PREFIX)

    def descriptor(self, project: str, sample_period: float) -> metric_pb2.MetricDescriptor:
        """Return the metric's descriptor; `sample_period` is the sample period of the emulator, in
        seconds."""
        descriptor = metric_pb2.MetricDescriptor(
            name=f"projects/{project}/metricDescriptors/{self.type}",
            type=self.type,
            labels=[label_pb2.LabelDescriptor(key=name, description=_LABELS[name]) for name in self.labels],
            metric_kind=self.kind,  # type: ignore[arg-type]
            value_type=self.value_type,  # type: ignore[arg-type]
            unit=self.unit,
            description=self.description,
            display_name=self.display_name,
            launch_stage=launch_stage_pb2.GA,
            monitored_resource_types=[self.resource],
        )
        descriptor.metadata.launch_stage = launch_stage_pb2.GA
        descriptor.metadata.sample_period.FromNanoseconds(int(sample_period * 1e9))
        descriptor.metadata.ingest_delay.FromNanoseconds(0)
        return descriptor


def _training(
    name: str, display: str, description: str, *labels: str, counter: bool = False
) -> EmulatedMetric:
    return EmulatedMetric(
        TRAINING_PREFIX + name,
        TRAINING_RESOURCE,
        display,
        description,
        ("replica_id", *labels),
        "By" if counter else "1",
        Kind.DELTA if counter else Kind.GAUGE,
        ValueType.INT64 if counter else ValueType.DOUBLE,
    )


def _quota(type_: str, display: str, description: str, *labels: str) -> EmulatedMetric:
    return EmulatedMetric(
        type_, QUOTA_RESOURCE, display, description, ("quota_metric", *labels), value_type=ValueType.INT64
    )


def _serving(
    name: str, display: str, description: str, *labels: str, value_type: int = ValueType.INT64
) -> EmulatedMetric:
    unit = "ms" if value_type == ValueType.DISTRIBUTION else "1"
    return EmulatedMetric(
        SERVING_PREFIX + name, ENDPOINT_RESOURCE, display, description, (*_SERVING_LABELS, *labels), unit,
        Kind.DELTA, value_type,
    )  # fmt: skip


PREDICTIONS = _serving("prediction_count", "Prediction count", "Number of online predictions.")
ERRORS = _serving("error_count", "Error count", "Number of online prediction errors.")
RESPONSES = _serving(
    "response_count", "Response count", "Number of responses by their code.", "response_code"
)
LATENCIES = _serving(
    "prediction_latencies", "Prediction latencies", "Latency of online predictions.", "latency_type",
    value_type=ValueType.DISTRIBUTION,
)  # fmt: skip

_ALL = (
    PREDICTIONS,
    ERRORS,
    RESPONSES,
    LATENCIES,
    _training(CPU, "CPU utilization", "Fraction of the replica's allocated CPU in use, 0 to 1."),
    _training(MEMORY, "Memory utilization", "Fraction of the replica's allocated memory in use, 0 to 1."),
    _training(GPU, "Accelerator utilization", "Fraction of time in use, 0 to 1.", *_GPU_LABELS),
    _training(
        GPU_MEMORY,
        "Accelerator memory utilization",
        "Fraction of the accelerator's memory in use, 0 to 1.",
        *_GPU_LABELS,
    ),
    _training(NET_IN, "Network bytes received", "Bytes that the replica received.", counter=True),
    _training(NET_OUT, "Network bytes sent", "Bytes that the replica sent.", counter=True),
    _quota(QUOTA_LIMIT, "Quota limit", "The limit of a quota; -1 is unlimited.", "limit_name"),
    _quota(QUOTA_USAGE, "Allocation quota usage", "How much of an allocation quota is in use."),
)

METRICS: Mapping[str, EmulatedMetric] = {metric.type: metric for metric in _ALL}
"""Metrics by type."""
