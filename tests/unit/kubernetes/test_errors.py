"""What a kube-apiserver has answered, in the words of the console."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tui.backends.errors import BackendError, InvalidRequest, PermissionDenied
from tui.backends.kubernetes.errors import from_status

RECORDED = json.loads(Path(__file__).with_name("recorded_refusals.json").read_text())
"""Statuses of a kube-apiserver 1.34.9."""


def test_causes_that_only_name_the_object_are_left_out() -> None:
    one = from_status(RECORDED["no runtime"], "create it")
    assert one.message == (
        'Can\'t create it: TrainJob.trainer.kubeflow.org "t" is invalid: spec.runtimeRef.name: Required value'
    )
    assert isinstance(one, InvalidRequest) and one.fields == {"spec.runtimeRef.name": "Required value"}
    two = from_status(RECORDED["fraction"], "create it").message
    assert "<nil>" not in two and two.endswith("expected int64]") and " is invalid: [spec." in two
    name = from_status(RECORDED["train name"], "create it")
    assert name.message.endswith("is invalid: metadata.name must match RFC 1035 DNS label format")


def refused(code: int, message: str) -> BackendError:
    return from_status({"code": code, "reason": "Forbidden", "message": message}, "create it")


@pytest.mark.parametrize(
    ("code", "text", "fix"),
    [
        (
            403,
            'admission webhook "v.kb.io" denied the request: metadata.name: Invalid value: "a.b"',
            "Use a name that",
        ),
        (
            403,
            'admission webhook "v.kb.io" denied the request: [spec.xs[Worker].replicas: Forbidden: 1]',
            "Change spec.xs[Worker].replicas as",
        ),
        (
            400,
            'admission webhook "v.kb.io" denied the request without explanation',
            "Change the fields that the message names",
        ),
        (
            403,
            "jobs.batch b is forbidden: ValidatingAdmissionPolicy 'p' with binding 'q' denied request: no",
            "Change the fields that the message names",
        ),
    ],
)
def test_a_refusal_by_admission_is_no_missing_permission(code: int, text: str, fix: str) -> None:
    found = refused(code, text)
    assert isinstance(found, InvalidRequest) and found.exit_code == 2
    assert text in found.message and found.fix.startswith(fix)


def test_a_missing_permission_stays_one() -> None:
    """A user may be called anything."""
    found = refused(
        403, 'jobs.batch is forbidden: User "webhook" cannot create resource "jobs" in API group "batch"'
    )
    assert isinstance(found, PermissionDenied) and "can-i create jobs.batch" in found.fix
