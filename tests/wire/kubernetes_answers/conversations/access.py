"""Who may do what: reviews, refusals without a token."""

from __future__ import annotations

from typing import Any

from tests.wire.kubernetes_answers.conversations.objects import MAPS
from tests.wire.kubernetes_answers.recorder import Recorder

_REVIEWS = "/apis/authorization.k8s.io/v1"


def _review(kind: str, spec: Any) -> Any:
    return {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}


def _allowed(body: Any) -> Any:
    """Why somebody may is the cluster's own business."""
    return {**body, "status": {"allowed": body["status"]["allowed"]}} if "status" in body else body


async def talk(call: Recorder) -> None:
    for label, token in (
        ("no token", ""),
        ("a wrong token", "Bearer wrong"),
        ("another scheme", "Basic eDp5"),
    ):
        await call(label, "GET", MAPS, headers={"authorization": token})
    self_review = f"{_REVIEWS}/selfsubjectaccessreviews"
    asked = {"verb": "create", "resource": "pods", "subresource": "exec", "namespace": "default"}
    spec = {"resourceAttributes": asked}
    await call("may I exec", "POST", self_review, _review("SelfSubjectAccessReview", spec), keep=_allowed)
    spec = {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}}
    await call(
        "may I read a path", "POST", self_review, _review("SelfSubjectAccessReview", spec), keep=_allowed
    )
    for label, bad in (
        ("nothing is asked", {}),
        (
            "both are asked",
            {"resourceAttributes": asked, "nonResourceAttributes": {"path": "/", "verb": "get"}},
        ),
    ):
        await call(label, "POST", self_review, _review("SelfSubjectAccessReview", bad))
    await call("another kind", "POST", self_review, _review("SubjectAccessReview", spec))
    await call("no list of reviews", "GET", self_review)
    rules = _review("SelfSubjectRulesReview", {"namespace": "default"})
    await call(
        "what may I",
        "POST",
        f"{_REVIEWS}/selfsubjectrulesreviews",
        rules,
        keep=lambda body: {"kind": body["kind"], "fields": sorted(body["status"])},
    )
    await call(
        "rules of no namespace",
        "POST",
        f"{_REVIEWS}/selfsubjectrulesreviews",
        _review("SelfSubjectRulesReview", {}),
    )
    who = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    await call(
        "who am I",
        "POST",
        "/apis/authentication.k8s.io/v1/selfsubjectreviews",
        who,
        keep=lambda body: {**body, "status": sorted(body["status"]["userInfo"].keys() - {"uid", "extra"})},
    )
    for path in ("/healthz", "/livez", "/readyz", "/livez/ping"):
        await call(path, "GET", path)
