"""mpirun's command line and hostfile: the processes to start and their hosts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

HOSTFILES = ("OMPI_MCA_orte_default_hostfile", "I_MPI_HYDRA_HOST_FILE", "HYDRA_HOST_FILE")
_COUNT = {"-n", "-np", "--np", "-c"}
_HOSTFILE = {"--hostfile", "-hostfile", "--machinefile", "-machinefile", "-f"}
_HOSTS = {"-H", "--host", "-host", "-hosts"}
_PER_NODE = {"-npernode", "--npernode", "-N", "-ppn", "-perhost"}
_ALONE = {
    "--allow-run-as-root", "-allow-run-as-root", "--oversubscribe", "-oversubscribe", "--tag-output",
    "-tag-output", "--report-bindings", "-report-bindings", "-q", "--quiet", "-v", "--verbose",
    "--display-map", "--display-allocation", "--nooversubscribe", "--use-hwthread-cpus", "--timestamp-output",
}  # fmt: skip
_ONE_VALUE = {
    "--bind-to", "-bind-to", "--map-by", "-map-by", "--rank-by", "--prefix", "--output", "--output-filename",
    "-wdir", "--wdir", "-launcher", "-bootstrap",
}  # fmt: skip
_TWO_VALUES = {"-mca", "--mca", "-gmca", "--gmca", "-genv", "--prtemca", "--pmixmca"}
_HYDRA_SLOTS = re.compile(r"(.+):(\d+)")


class MpirunUsageError(Exception):
    """The command line is invalid or unsupported. The message names the option and the reason."""


@dataclass(frozen=True)
class HostSlots:
    """A host and its number of process slots."""

    host: str
    count: int


@dataclass
class MpirunRequest:
    """The parsed command line of mpirun."""

    command: list[str] = field(default_factory=list)
    count: int | None = None
    per_node: int | None = None
    hostfile: str = ""
    hosts: list[HostSlots] = field(default_factory=list)
    exported: dict[str, str] = field(default_factory=dict)
    """Environment variables exported with `-x`."""
    oversubscribe: bool = False


def parse(words: Sequence[str], env: Mapping[str, str]) -> MpirunRequest:
    """Parse a command line. Raises MpirunUsageError."""
    request = MpirunRequest()
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("-"):
            request.command = [word, *left]
            break
        _take(request, word, left, env)
    if ":" in request.command:
        raise MpirunUsageError("several programs in one command line (`:`) are not supported; start one")
    if not request.command:
        raise MpirunUsageError("the program is missing: mpirun -n COUNT PROGRAM [ARGUMENT…]")
    request.hostfile = request.hostfile or next((env[name] for name in HOSTFILES if env.get(name)), "")
    return request


def _take(request: MpirunRequest, word: str, left: list[str], env: Mapping[str, str]) -> None:
    """Parse one option with its values."""
    if word in _ALONE:
        request.oversubscribe |= word.endswith("oversubscribe") and not word.endswith("nooversubscribe")
        return
    value_count = 2 if word in _TWO_VALUES else 1
    if len(left) < value_count:
        raise MpirunUsageError(f"the option {word} has no value")
    value = left.pop(0)
    if value_count == 2:
        second = left.pop(0)
        if word == "-genv":
            request.exported[value] = second
        return
    if word in _COUNT:
        request.count = _number(word, value)
    elif word in _PER_NODE:
        request.per_node = _number(word, value)
    elif word in _HOSTFILE:
        request.hostfile = value
    elif word in _HOSTS:
        request.hosts = [_host(item) for item in value.split(",") if item]
    elif word == "-x":
        name, equals, text = value.partition("=")
        if equals or name in env:
            request.exported[name] = text if equals else env[name]
    elif word not in _ONE_VALUE:
        raise MpirunUsageError(f"the option {word} is not supported")


def _number(option: str, text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise MpirunUsageError(f"{option} {text}: must be an integer of at least 1")
    return int(text)


def _host(text: str) -> HostSlots:
    match = _HYDRA_SLOTS.fullmatch(text)
    return HostSlots(match[1], int(match[2])) if match else HostSlots(text, 1)


def read_hostfile(text: str) -> list[HostSlots]:
    """Return the hosts of a hostfile of Open MPI (`HOST slots=N`) or of MPICH and Intel MPI (`HOST:N`)."""
    hosts = []
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if words:
            slots = next(
                (option.partition("=")[2] for option in words[1:] if option.startswith("slots=")), ""
            )
            host = _host(words[0])
            hosts.append(HostSlots(host.host, int(slots)) if slots.isdigit() else host)
    return hosts


@dataclass(frozen=True)
class ProcessPlacement:
    """Rank and host of one process."""

    rank: int
    host: str
    local_rank: int
    local_size: int
    node: int


def place(request: MpirunRequest, hosts: Sequence[HostSlots]) -> list[ProcessPlacement]:
    """Assign a host to each process, by slot. Raises MpirunUsageError if there are too few slots."""
    hosts = [HostSlots(host.host, request.per_node or host.count) for host in hosts]
    room = sum(host.count for host in hosts)
    count = room if request.count is None else request.count
    if count > room and not request.oversubscribe:
        raise MpirunUsageError(
            f"There are not enough slots available in the system to satisfy the {count} slots that were "
            f"requested by the application: {request.command[0]}. The hostfile has {room}: set "
            "slotsPerWorker or the number of workers, or pass --oversubscribe"
        )
    if not room:
        raise MpirunUsageError("the hostfile names no hosts")
    slots = [node for node, host in enumerate(hosts) for _ in range(host.count)]
    nodes = sorted(slots[index % room] for index in range(count))
    sizes = {node: nodes.count(node) for node in set(nodes)}
    places, seen = [], dict.fromkeys(sizes, 0)
    for rank, node in enumerate(nodes):
        places.append(ProcessPlacement(rank, hosts[node].host, seen[node], sizes[node], node))
        seen[node] += 1
    return places


def variables(
    process: ProcessPlacement, size: int, request: MpirunRequest, address: tuple[str, int]
) -> dict[str, str]:
    """Return the environment of a process: Open MPI's variables, the exported variables, and rank 0's
    address."""
    return {
        "OMPI_COMM_WORLD_RANK": str(process.rank),
        "OMPI_COMM_WORLD_SIZE": str(size),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(process.local_rank),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(process.local_size),
        "OMPI_COMM_WORLD_NODE_RANK": str(process.local_rank),
        "OMPI_UNIVERSE_SIZE": str(size),
        "MASTER_ADDR": address[0],
        "MASTER_PORT": str(address[1]),
        **request.exported,
    }
