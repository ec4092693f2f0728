"""The sources of this node's rank: a table of variables, of which the first applicable row decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainer.placement.indexed_jobs import from_indexed_job, from_job_set
from trainer.placement.kubeflow import from_pet, from_ranks
from trainer.placement.mpi import ReadFile, from_mpi, is_mpi
from trainer.placement.tensorflow import from_cluster_spec, from_tf_config
from trainer.placement.topology import Topology, TopologyError

Env = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PlacementSource:
    """A source of the node's rank: `applies` detects its variables, `read` parses them."""

    names: str
    applies: Callable[[Env], bool]
    read: Callable[[Env, ReadFile], Topology]


def _set(*names: str) -> Callable[[Env], bool]:
    return lambda env: all(env.get(name) for name in names)


SOURCES = (
    # A launcher inside the container precedes the platform around it.
    PlacementSource(
        "LOCAL_RANK, RANK (torchrun)",
        lambda env: "LOCAL_RANK" in env and "RANK" in env,
        lambda env, _: from_ranks(env, "torchrun", per_process=True),
    ),
    PlacementSource("OMPI_COMM_WORLD_RANK or PMI_RANK (mpirun, MPIJob)", is_mpi, from_mpi),
    PlacementSource("CLUSTER_SPEC (Vertex AI)", _set("CLUSTER_SPEC"), lambda env, _: from_cluster_spec(env)),
    PlacementSource("TF_CONFIG (TFJob)", _set("TF_CONFIG"), lambda env, _: from_tf_config(env)),
    PlacementSource("PET_NNODES (PyTorchJob, TrainJob)", _set("PET_NNODES"), lambda env, _: from_pet(env)),
    PlacementSource(
        "RANK, WORLD_SIZE",
        lambda env: "RANK" in env and "WORLD_SIZE" in env,
        lambda env, _: from_ranks(env, "RANK and WORLD_SIZE", per_process=False),
    ),
    PlacementSource("JOBSET_NAME (JobSet)", _set("JOBSET_NAME"), lambda env, _: from_job_set(env)),
    PlacementSource(
        "JOB_COMPLETION_INDEX (Job)", _set("JOB_COMPLETION_INDEX"), lambda env, _: from_indexed_job(env)
    ),
)


def _read_file(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def find_topology(env: Env, read_file: ReadFile = _read_file) -> Topology:
    """Return this node's rank from the first source that applies; a single node if none applies.

    `read_file` reads mpirun's hostfile.

    Raises:
        TopologyError: if the variables are inconsistent, or come from two operators.
    """
    source = next((source for source in SOURCES if source.applies(env)), None)
    if source is None:
        return Topology("none")
    topology = source.read(env, read_file)
    if topology.source == "TF_CONFIG" and env.get("PET_NNODES"):
        _compare(topology, from_pet(env))
    return topology


def _compare(first: Topology, other: Topology) -> None:
    """Check that the variables of two operators agree on this node's rank. Raises TopologyError."""
    if (first.node_rank, first.nodes) != (other.node_rank, other.nodes):
        places = " and ".join(
            f"{place.source} (node {place.node_rank} of {place.nodes})" for place in (first, other)
        )
        raise TopologyError(
            f"{places} disagree on this node's rank: the operator sets only one, so remove the other from "
            "the manifest and the image"
        )
