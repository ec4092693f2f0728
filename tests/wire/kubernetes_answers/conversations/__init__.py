"""Conversations with an API server, by what they are about."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.wire.kubernetes_answers.conversations import (
    access,
    custom,
    deletion,
    discovery,
    jobs,
    lists,
    patches,
    pods,
    refusals,
    watches,
)
from tests.wire.kubernetes_answers.recorder import Recorder


@dataclass(frozen=True, slots=True)
class Topic:
    """One conversation; `types` are the groups of custom types that it needs."""

    name: str
    talk: Callable[[Recorder], Awaitable[None]]
    types: tuple[str, ...] = ()


_KUBEFLOW = ("kubeflow.org", "trainer.kubeflow.org", "jobset.x-k8s.io", "kueue.x-k8s.io")
TOPICS = (
    Topic("access", access.talk),
    Topic("custom", custom.talk, _KUBEFLOW),
    Topic("custom-refusals", custom.refusals, _KUBEFLOW),
    Topic("scale", custom.scale, _KUBEFLOW),
    Topic("deletion", deletion.talk),
    Topic("discovery", discovery.talk, _KUBEFLOW),
    Topic("jobs", jobs.talk),
    Topic("job-refusals", jobs.refusals),
    Topic("lists", lists.talk),
    Topic("patches", patches.talk),
    Topic("apply", patches.apply),
    Topic("pods", pods.talk),
    Topic("pod-refusals", pods.refusals),
    Topic("refusals", refusals.talk),
    Topic("field-validation", refusals.fields),
    Topic("watches", watches.talk),
)
