"""Batch Jobs: defaults, refusals, what can't be changed."""

from __future__ import annotations

from typing import Any

from tests.wire.kubernetes_answers.conversations.objects import JOBS, MERGE, container, job, template
from tests.wire.kubernetes_answers.recorder import Recorder


def _kind(body: Any) -> Any:
    return body if body.get("kind") == "Status" else body["kind"]


def unmanaged(body: Any) -> Any:
    """Without the record of who set which field: there, it lacks what the API server completes last."""
    metadata = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
    return {**body, "metadata": metadata}


async def talk(call: Recorder) -> None:
    dry = {"dryRun": "All"}
    await call("defaults", "POST", JOBS, job("j"), params=dry, keep=unmanaged)
    await call(
        "indexed",
        "POST",
        JOBS,
        job("j", completionMode="Indexed", completions=2, parallelism=2, backoffLimitPerIndex=1),
        params=dry,
        keep=unmanaged,
    )
    await call(
        "work queue", "POST", JOBS, job("j", parallelism=2), params=dry, keep=lambda body: body["spec"]
    )
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    await call(
        "failure policy",
        "POST",
        JOBS,
        job("j", podFailurePolicy={"rules": [rule]}),
        params=dry,
        keep=lambda body: body["spec"],
    )
    await call(
        "create", "POST", JOBS, job("k", completionMode="Indexed", completions=2, parallelism=2), keep=_kind
    )
    path = f"{JOBS}/k"
    for label, spec in (
        ("parallelism", {"parallelism": 1}),
        ("completions", {"completions": 3}),
        ("both", {"completions": 3, "parallelism": 3}),
        ("mode", {"completionMode": "NonIndexed"}),
        ("resume", {"suspend": False}),
        ("limit", {"backoffLimit": 1}),
        ("deadline", {"activeDeadlineSeconds": 9}),
        ("negative", {"parallelism": -1}),
        ("node selector", {"template": {"spec": {"nodeSelector": {"a": "b"}}}}),
        ("image", {"template": {"spec": {"containers": [container(image="x:2")]}}}),
        ("restart policy", {"template": {"spec": {"restartPolicy": "OnFailure"}}}),
        ("selector", {"selector": {"matchLabels": {"a": "b"}}}),
        ("template label", {"template": {"metadata": {"labels": {"a": "b"}}}}),
        ("time to live", {"ttlSecondsAfterFinished": 5}),
    ):
        await call(f"change of {label}", "PATCH", path, {"spec": spec}, headers=MERGE, params=dry, keep=_kind)


async def refusals(call: Recorder) -> None:
    never = template(restartPolicy="Never")
    bad = {
        "no template": {**job("j"), "spec": {}},
        "no spec": {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}},
        "no restart policy": job("j", template=template()),
        "restart policy": job("j", template=template(restartPolicy="Always")),
        "negative": job("j", parallelism=-1, completions=-1, backoffLimit=-1),
        "indexed without completions": job("j", completionMode="Indexed"),
        "mode": job("j", completionMode="Other"),
        "text for a number": job("j", parallelism="two"),
        "number for text": job("j", completionMode=1),
        "text for an object": job("j", template="x"),
        "selector": job("j", selector={"matchLabels": {"a": "b"}}, template=never),
        "manual selector": job("j", manualSelector=True, template=never),
        "long name": job("j" * 64),
        "per index without index": job("j", backoffLimitPerIndex=1),
        "ttl": job("j", ttlSecondsAfterFinished=-1),
        "failure policy": job("j", podFailurePolicy={"rules": [{"action": "Shrug"}]}),
        "no image": job("j", template={"spec": {"restartPolicy": "Never", "containers": [{"name": "a"}]}}),
        "pod policy": job("j", podReplacementPolicy="Later"),
    }
    for label, body in bad.items():
        await call(label, "POST", JOBS, body, keep=_kind)
