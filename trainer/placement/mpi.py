"""Read mpirun's variables: an MPIJob's launcher starts one process per slot, or one per node.

Open MPI sets OMPI_COMM_WORLD_*, Hydra (MPICH, Intel MPI) sets PMI_* and MPI_LOCAL*. Neither names rank 0's
host. The host is MASTER_ADDR if the command sets this variable. Otherwise it is the first host of the
operator's hostfile, which only the launcher's pod has. Without a hostfile it is worker 0, whose name follows
from this worker's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from trainer.placement.topology import Topology, TopologyError
from trainer.placement.variables import check_rank, job_id, pod_index, read_first, read_integer

ReadFile = Callable[[str], str]
"""Function that returns the text of a file, or "" if the file does not exist."""
HOSTFILES = (
    "OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile", "I_MPI_HYDRA_HOST_FILE",
    "HYDRA_HOST_FILE",
)  # fmt: skip
_ROLE = "K_MPI_JOB_ROLE"


@dataclass(frozen=True, slots=True)
class _Names:
    """The variables of one MPI implementation."""

    source: str
    rank: str
    size: str
    local_rank: tuple[str, ...]
    local_size: tuple[str, ...]


_OPEN_MPI = _Names(
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    ("OMPI_COMM_WORLD_LOCAL_RANK",),
    ("OMPI_COMM_WORLD_LOCAL_SIZE",),
)
_HYDRA = _Names(
    "PMI_RANK",
    "PMI_RANK",
    "PMI_SIZE",
    ("MPI_LOCALRANKID", "PMI_LOCAL_RANK"),
    ("MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"),
)


def is_mpi(env: Mapping[str, str]) -> bool:
    """Return whether mpirun started this process, or this pod belongs to an MPIJob but mpirun did not start
    the process."""
    return any(env.get(name) for name in (_OPEN_MPI.rank, _HYDRA.rank, _ROLE))


def from_mpi(env: Mapping[str, str], read_file: ReadFile) -> Topology:
    """Read mpirun's variables."""
    ours, hydra = env.get(_OPEN_MPI.rank, ""), env.get(_HYDRA.rank, "")
    if ours and hydra and ours != hydra:
        raise TopologyError(
            f"{_OPEN_MPI.rank}={ours} and {_HYDRA.rank}={hydra} name two ranks: one mpirun started "
            "another. Start the trainer with only one mpirun"
        )
    if not ours and not hydra:
        raise TopologyError(
            f"this is a {env[_ROLE]} of an MPIJob ({_ROLE}), but mpirun did not start this process: the "
            "launcher's command is `mpirun … python -m trainer.task …`, and workers run sshd"
        )
    names = _OPEN_MPI if ours else _HYDRA
    rank, size = read_integer(env, names.rank), read_integer(env, names.size)
    check_rank(names.rank, rank, size, f"{names.size}={size}")
    local_rank, local_size = _local(env, names, size)
    address = _address(env, size, local_size, read_file)
    port = read_integer(env, "MASTER_PORT", 29500)
    per_process = local_size > 1
    variables = {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(local_size),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
    }
    return Topology(
        names.source,
        node_rank=rank,
        nodes=size,
        address=address,
        port=port,
        per_process=per_process,
        job=job_id(env, size, port),
        variables=variables if per_process else {},
    )


def _local(env: Mapping[str, str], names: _Names, size: int) -> tuple[int, int]:
    """Return this process's rank on its machine, and the number of processes that mpirun started there."""
    name, text = read_first(env, *names.local_rank)
    if not text and size == 1:
        return 0, 1
    size_name, size_text = read_first(env, *names.local_size)
    if not text or not size_text:
        missing = name if not text else size_name
        raise TopologyError(
            f"{names.rank} is set, but not {missing}, which selects this process's device. "
            f"Start with mpirun of Open MPI, MPICH or Intel MPI, or set {missing}"
        )
    local_rank, local_size = read_integer(env, name), read_integer(env, size_name)
    check_rank(name, local_rank, local_size, f"{size_name}={local_size}")
    return local_rank, local_size


def _address(env: Mapping[str, str], size: int, local_size: int, read_file: ReadFile) -> str:
    if env.get("MASTER_ADDR"):
        return env["MASTER_ADDR"]
    if size == local_size:
        return "127.0.0.1"
    _, path = read_first(env, *HOSTFILES)
    if path and (host := first_host(read_file(path))):
        return host
    pod = pod_index(env.get("HOSTNAME", ""))
    if pod is not None and pod[1] == "worker":
        return f"{pod[0]}-worker-0"
    raise TopologyError(
        f"mpirun started {size} processes on several machines, and rank 0's host is unknown: there is "
        f"no hostfile here ({', '.join(HOSTFILES)}), and HOSTNAME={env.get('HOSTNAME', '')!r} is not "
        "JOB-worker-N. Start with `mpirun -x MASTER_ADDR=JOB-worker-0.JOB …` (Hydra: -genv MASTER_ADDR …)"
    )


def first_host(hostfile: str) -> str:
    """Return the first host in a hostfile of Open MPI (`name slots=4`) or Hydra (`name:4`)."""
    for line in hostfile.splitlines():
        words = line.partition("#")[0].split()
        if words:
            return words[0].partition(":")[0]
    return ""
