"""Jobs with parts missing or odd: the API refuses them, or the controllers get along with them."""

from __future__ import annotations

import copy
import json
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.kubernetes.cluster import Cluster, Obj
from tests.unit.kubernetes.job_sets_support import job_set, replicated
from tests.unit.kubernetes.mpi_jobs_support import mpi_job
from tests.unit.kubernetes.queues_support import kueue, prepare
from tests.unit.kubernetes.train_jobs_support import TRAINER, train_job
from tests.unit.kubernetes.training_operator_support import pytorch_job, tf_job
from tui.emulator.kubernetes.errors import ApiError

ELASTIC = {"minReplicas": 1, "maxReplicas": 2}
JOBS = [
    pytorch_job(1, runPolicy={"schedulingPolicy": {"minAvailable": 1}, "backoffLimit": 1}),
    pytorch_job(2, master=False, elasticPolicy=ELASTIC),
    tf_job({"Chief": 1, "Worker": 1}),
    mpi_job("v1"),
    mpi_job("v2beta1", runPolicy={"backoffLimit": 1}),
    job_set(replicated("a"), replicated("b"), failurePolicy={"maxRestarts": 1}),
    train_job(trainer=TRAINER, runtimePatches=[{"manager": "a.b/c", "trainingRuntimeSpec": {}}]),
    train_job("deepspeed-distributed", trainer={"numNodes": 2}),
    kueue("ClusterQueue", "train", {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"],
          "flavors": [{"name": "cpu", "resources": [{"name": "cpu", "nominalQuota": "1"}]}]}]}),
    kueue("LocalQueue", "train", {"clusterQueue": "all"}),
]  # fmt: skip
ODD: list[Any] = [None, {}, [], "", 0, -1, "x", [{}], {"a": {}}]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all parts of a specification."""
    found = [path] if path else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        found += places(each, (*path, key))
    return found


def changed(job: Obj, path: tuple[Any, ...], odd: Any, remove: bool) -> Obj:
    """The job with one part removed or odd."""
    result = copy.deepcopy(job)
    where: Any = result["spec"]
    for key in path[:-1]:
        where = where[key]
    if remove:
        del where[path[-1]]
    else:
        where[path[-1]] = odd
    return result


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_an_odd_job_is_refused_or_handled(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    job = json.loads(data.draw(st.sampled_from(JOBS)))
    path = data.draw(st.sampled_from(places(job["spec"])))
    odd = changed(job, path, data.draw(st.sampled_from(ODD)), data.draw(st.booleans()))
    with closing(Cluster(tmp_path_factory.mktemp("cluster"))) as cluster:
        prepare(cluster)
        # A controller that the API refuses an object tries again later, and others go on.
        with suppress(ApiError):
            cluster.apply(json.dumps(odd))
            cluster.settle()
            cluster.run()
            for pod in cluster.pods():
                if pod["status"]["phase"] == "Running":
                    cluster.end(pod["metadata"]["name"], 1)
            cluster.stop()


def test_null_is_nothing_to_the_operators(tmp_path: Path) -> None:
    with closing(Cluster(tmp_path)) as cluster:
        prepare(cluster)
        cluster.apply(pytorch_job(1, runPolicy=None))
        assert "runPolicy" not in cluster.get("pytorchjobs", "train", "kubeflow.org")["spec"]
        cluster.settle()
        assert len(cluster.pods()) == 2


def test_a_job_set_without_containers_is_refused(tmp_path: Path) -> None:
    odd = json.loads(job_set(replicated("a")))
    odd["spec"]["replicatedJobs"][0]["template"] = {}
    with closing(Cluster(tmp_path)) as cluster, pytest.raises(ApiError, match="containers: Required value"):
        cluster.apply(json.dumps(odd))
