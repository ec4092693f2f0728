"""What several tests share with test_operator_places."""

from __future__ import annotations

import json

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def tf_job(role: str, index: int, counts: dict[str, int]) -> dict[str, str]:
    """A TFJob (tensorflow.go, genTFConfigJSONStr)."""
    cluster = {
        kind: [f"job-{kind}-{i}.default.svc:2222" for i in range(n)] for kind, n in counts.items() if n
    }
    task = {"type": role, "index": index}
    return POD | {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task, "environment": "cloud"})}


def open_mpi(rank: int, size: int, local_size: int, **env: str) -> dict[str, str]:
    """A process of Open MPI's mpirun; on another machine by ssh, so without the pod's variables."""
    return {
        "OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(size),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(rank % local_size), "OMPI_COMM_WORLD_LOCAL_SIZE": str(local_size),
        "OMPI_COMM_WORLD_NODE_RANK": str(rank % local_size), "OMPI_UNIVERSE_SIZE": str(size),
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile", **env,
    }  # fmt: skip


def hydra(rank: int, size: int, local_size: int, **env: str) -> dict[str, str]:
    """A process of mpiexec.hydra (MPICH, Intel MPI), which gets the launcher's variables too."""
    return {
        "PMI_RANK": str(rank), "PMI_SIZE": str(size), "PMI_FD": "9",
        "MPI_LOCALRANKID": str(rank % local_size), "MPI_LOCALNRANKS": str(local_size),
        "K_MPI_JOB_ROLE": "launcher", "I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile", **env,
    }  # fmt: skip
