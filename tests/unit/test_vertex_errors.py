"""Each way in which Google's services fail, in the console's words."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.api_core import exceptions as api
from google.auth import exceptions as auth
from google.protobuf import any_pb2, duration_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2

from tui.backends import interface
from tui.backends.errors import ReplyTooLarge
from tui.backends.kubernetes.errors import from_status as cluster_error
from tui.backends.vertex.timestamps import time_of
from tui.backends.vertex.transport.errors import LOGIN, from_status, translate
from tui.domain.kubernetes.conditions import time_of as kubernetes_time


def failed(code: grpc.StatusCode, message: str, *details: Any) -> grpc.aio.AioRpcError:
    """What an async call raises, with its google.rpc details in the trailer as on the wire."""
    status = status_pb2.Status(code=code.value[0], message=message)
    for detail in details:
        box = any_pb2.Any()
        box.Pack(detail)
        status.details.append(box)
    trailer = grpc.aio.Metadata(("grpc-status-details-bin", status.SerializeToString()))
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailer, details=message)


@pytest.mark.parametrize(
    ("code", "kind", "exit_code"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, interface.InvalidRequest, 2),
        (grpc.StatusCode.OUT_OF_RANGE, interface.InvalidRequest, 2),
        (grpc.StatusCode.NOT_FOUND, interface.NotFound, 3),
        (grpc.StatusCode.FAILED_PRECONDITION, interface.FailedPrecondition, 1),
        (grpc.StatusCode.UNAUTHENTICATED, interface.Unauthenticated, 4),
        (grpc.StatusCode.PERMISSION_DENIED, interface.PermissionDenied, 4),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, interface.QuotaExceeded, 5),
        (grpc.StatusCode.UNAVAILABLE, interface.Unavailable, 5),
        (grpc.StatusCode.DEADLINE_EXCEEDED, interface.Unavailable, 5),
        (grpc.StatusCode.CANCELLED, interface.Unavailable, 5),
        (grpc.StatusCode.INTERNAL, interface.BackendError, 5),
        (grpc.StatusCode.UNKNOWN, interface.BackendError, 5),
    ],
)
def test_each_code_has_its_kind_raw_or_wrapped(
    code: grpc.StatusCode, kind: type[interface.BackendError], exit_code: int
) -> None:
    raw = failed(code, "the reason")
    for error in (raw, api.from_grpc_error(raw)):
        found = translate(error, "do it")
        assert type(found) is kind
        assert found.exit_code == exit_code
        assert found.message == "Can't do it: the reason"


def test_the_fields_of_a_refused_request_are_kept() -> None:
    violation = error_details_pb2.BadRequest.FieldViolation(field="job.replica_count", description="be 1")
    detail = error_details_pb2.BadRequest(field_violations=[violation])
    found = translate(failed(grpc.StatusCode.INVALID_ARGUMENT, "no", detail), "create")
    assert isinstance(found, interface.InvalidRequest)
    assert found.fields == {"job.replica_count": "be 1"}


@pytest.mark.parametrize("with_details", [True, False])
def test_a_list_of_found_errors_is_one_sentence_per_field(with_details: bool) -> None:
    pairs = [
        ("job_spec.worker_pool_specs[0].machine_spec", "Both a and b should be given; or none."),
        ("custom_job.labels", "There can be no more than 64 labels."),
    ]
    entries = [f"\t{number}.Field: {f}; Message: {text}" for number, (f, text) in enumerate(pairs, 1)]
    violations = [
        error_details_pb2.BadRequest.FieldViolation(field=field, description=text) for field, text in pairs
    ]
    details = [error_details_pb2.BadRequest(field_violations=violations)] if with_details else []
    message = f"List of found errors:{''.join(entries)}\t"
    error = translate(failed(grpc.StatusCode.INVALID_ARGUMENT, message, *details), "create")
    assert isinstance(error, interface.InvalidRequest) and error.fields == dict(pairs)
    assert error.message == (
        "Can't create: job_spec.worker_pool_specs[0].machine_spec: Both a and b should be given; or none; "
        "custom_job.labels: There can be no more than 64 labels"
    )


def test_a_used_up_quota_says_which_and_how_long_to_wait() -> None:
    retry = error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=2, nanos=500_000_000))
    violation = error_details_pb2.QuotaFailure.Violation(subject="project:p", description="60 a minute")
    quota = error_details_pb2.QuotaFailure(violations=[violation])
    found = translate(failed(grpc.StatusCode.RESOURCE_EXHAUSTED, "slow down", retry, quota), "list")
    assert isinstance(found, interface.QuotaExceeded)
    assert found.retry_after == 2.5
    assert "project:p" in found.message
    assert "Wait" in found.fix


def test_a_training_quota_points_to_the_quotas() -> None:
    metric = "aiplatform.googleapis.com/custom_model_training_cpus"
    text = f"The following quota metrics exceed quota limits: {metric}"
    found = translate(failed(grpc.StatusCode.RESOURCE_EXHAUSTED, text), "create")
    assert isinstance(found, interface.QuotaExceeded)
    assert found.retry_after is None
    assert "quotas" in found.fix


def test_a_reply_that_is_too_large_is_no_quota() -> None:
    text = "CLIENT: Received message larger than max (4600000 vs. 4194304)"
    found = translate(failed(grpc.StatusCode.RESOURCE_EXHAUSTED, text), "list")
    assert (type(found), found.message) == (ReplyTooLarge, "Can't list: the reply has more than 32 MB.")
    found = translate(failed(grpc.StatusCode.RESOURCE_EXHAUSTED, text.replace("CLIENT", "SERVER")), "list")
    assert type(found) is interface.InvalidRequest and "too large" in found.fix


def test_an_api_that_is_off_is_named_with_the_command_that_turns_it_on() -> None:
    info = error_details_pb2.ErrorInfo(
        reason="SERVICE_DISABLED",
        domain="googleapis.com",
        metadata={"service": "cloudquotas.googleapis.com"},
    )
    found = translate(failed(grpc.StatusCode.PERMISSION_DENIED, "has not been used", info), "read")
    assert isinstance(found, interface.PermissionDenied)
    assert "gcloud services enable cloudquotas.googleapis.com" in found.fix


def test_a_token_of_too_narrow_a_scope_leads_to_the_login() -> None:
    info = error_details_pb2.ErrorInfo(reason="ACCESS_TOKEN_SCOPE_INSUFFICIENT", domain="googleapis.com")
    text = "Request had insufficient authentication scopes."
    found = translate(failed(grpc.StatusCode.PERMISSION_DENIED, text, info), "list the jobs")
    assert isinstance(found, interface.PermissionDenied) and found.fix == LOGIN


def test_a_missing_permission_is_named() -> None:
    info = error_details_pb2.ErrorInfo(
        reason="IAM_PERMISSION_DENIED", metadata={"permission": "aiplatform.customJobs.create"}
    )
    found = translate(failed(grpc.StatusCode.PERMISSION_DENIED, "denied", info), "create")
    assert "aiplatform.customJobs.create" in found.message


@pytest.mark.parametrize(
    "error",
    [
        failed(grpc.StatusCode.UNAVAILABLE, "Getting metadata from plugin failed with error: expired"),
        auth.RefreshError("Reauthentication is needed."),
        auth.DefaultCredentialsError("Your default credentials were not found."),
        failed(grpc.StatusCode.UNAUTHENTICATED, "no"),
    ],
)
def test_expired_or_missing_credentials_are_said_with_the_command_to_log_in(error: Exception) -> None:
    found = translate(error, "list the jobs")
    assert isinstance(found, interface.Unauthenticated)
    assert "gcloud auth application-default login" in found.fix


def test_what_never_reached_the_service_is_unavailable() -> None:
    for error in (TimeoutError(), ConnectionRefusedError(111, "refused"), auth.TransportError("dns")):
        assert isinstance(translate(error, "list"), interface.Unavailable)


def test_our_own_errors_pass_unchanged() -> None:
    own = interface.NotFound("gone")
    assert translate(own, "read") is own


def test_an_unknown_error_is_named_by_its_kind() -> None:
    assert "KeyError" in translate(KeyError("x"), "read").message


def test_an_operation_that_ended_badly_speaks_the_same_words() -> None:
    found = from_status(status_pb2.Status(code=code_pb2.FAILED_PRECONDITION, message="runs"), "delete")
    assert isinstance(found, interface.FailedPrecondition)
    assert found.message == "Can't delete: runs"


@pytest.mark.parametrize("value", [None, 5, "x", [], [None], {"causes": 5}, {"causes": [{"field": []}]}])
def test_a_status_of_a_cluster_with_values_of_other_types_is_an_error_too(value: Any) -> None:
    status = {"code": value, "reason": value, "message": value, "details": value}
    assert isinstance(cluster_error(status, "watch"), interface.BackendError)
    assert isinstance(cluster_error({"code": 422, "details": value}, "watch"), interface.InvalidRequest)


def test_a_time_to_which_no_hour_can_be_added_is_unknown() -> None:
    for seconds in (-(2**63), -62_135_596_800, 253_402_300_799, 2**63 - 1):
        assert time_of(seconds, 5) is None
    assert kubernetes_time("0001-01-01T00:00:00Z") is None is kubernetes_time("9999-12-31T23:59:59Z")
    assert time_of(0, 0) == kubernetes_time("1970-01-01T00:00:00Z")
