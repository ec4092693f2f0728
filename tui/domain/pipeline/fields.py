"""The fields of a pipeline job (REST format) and of a profile's body, as data (docs/facts/vertex.md 11.1)."""

from __future__ import annotations

from tui.domain.spec.field_table import (
    BOOLEAN,
    JOB_SPEC,
    RESOURCE,
    STRING,
    STRINGS,
    VALUE,
    FieldType,
    enum,
    message,
)

RUNTIME_CONFIG = message(
    "PipelineJob.RuntimeConfig",
    gcsOutputDirectory=STRING,
    parameterValues=VALUE,
    failurePolicy=enum(
        PIPELINE_FAILURE_POLICY_UNSPECIFIED=0,
        PIPELINE_FAILURE_POLICY_FAIL_SLOW=1,
        PIPELINE_FAILURE_POLICY_FAIL_FAST=2,
    ),
    inputArtifacts=VALUE,
)
_SENT: dict[str, FieldType] = {
    "pipelineSpec": VALUE,
    "templateUri": STRING,
    "runtimeConfig": RUNTIME_CONFIG,
    "serviceAccount": STRING,
    "network": STRING,
    "reservedIpRanges": STRINGS,
    "pscInterfaceConfig": JOB_SPEC.fields["pscInterfaceConfig"],
    "preflightValidations": BOOLEAN,
}
PIPELINE_JOB_BODY = FieldType("message", fields={"templatePath": STRING, **_SENT}, type="PipelineJob")
"""A profile's fields of a pipeline job; `templatePath` is a file next to it, sent as `pipelineSpec`."""
PIPELINE_JOB_RESOURCE = {**RESOURCE, **_SENT}
"""The fields of the request."""
