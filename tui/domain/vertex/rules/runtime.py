"""Rules about the environment of the running code: variables, disks and NCCL settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator

from tui.domain.document.document_edit import REMOVED, Edit
from tui.domain.document.source import ProblemSeverity
from tui.domain.spec.custom_job_spec import machine_of, task_of, whole, within
from tui.domain.spec.findings import Case, Finding, Path, Pool, Rule
from tui.domain.vertex.sources import DISTRIBUTED

NO_SUCH = {"CLOUD_ML_HP_TUNING_RANK": "RANK", "CLOUD_ML_HP_TUNING_WORLD_SIZE": "WORLD_SIZE"}
DATASET = ("AIP_TRAINING_DATA_URI", "AIP_VALIDATION_DATA_URI", "AIP_TEST_DATA_URI", "AIP_DATA_FORMAT")
OUTPUT = ("AIP_MODEL_DIR", "AIP_CHECKPOINT_DIR", "AIP_TENSORBOARD_LOG_DIR")
SET_BY_VERTEX = frozenset({"CLUSTER_SPEC", "TF_CONFIG", "RANK", "WORLD_SIZE", "MASTER_ADDR", "HOSTNAME"})
_VARIABLE = re.compile(r"\$(?:\((?P<a>\w+)\)|\{(?P<b>\w+)[^}]*\}|(?P<c>[A-Za-z_]\w*))")
_LAUNCHERS = (
    "torchrun",
    "torch.distributed",
    "accelerate",
    "deepspeed",
    "mpirun",
    "horovodrun",
    "supervisor",
)
_RDMA = ("a3-ultragpu-8g", "a4-highgpu-8g", "a4x-highgpu-4g")


def _texts(pool: Pool) -> Iterator[tuple[Path, str]]:
    """Yield the texts of a pool's task in which the shell or the service substitutes variables."""
    name, task = task_of(pool)
    for field in ("command", "args"):
        for i, text in enumerate(task.get(field) or []):
            yield (name, field, i), str(text)
    for i, variable in enumerate(task.get("env") or []):
        yield (name, "env", i, "value"), str(variable.get("value") or "")


def _named(pool: Pool) -> Iterator[tuple[Path, str, bool]]:
    """Yield the variables that a pool's texts use (with False) and that it sets (with True)."""
    for path, text in _texts(pool):
        for match in _VARIABLE.finditer(text) if "$" in text else ():
            yield path, match["a"] or match["b"] or match["c"], False
    name, task = task_of(pool)
    for i, variable in enumerate(task.get("env") or []):
        yield (name, "env", i), str(variable.get("name") or ""), True


def _own(pool: Pool) -> set[str]:
    return {name for _, name, sets in _named(pool) if sets}


def no_such_variable(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        matches = [(inner, text, n) for inner, text in _texts(pool) for n in NO_SUCH if n in text]
        for inner, text, name in matches:
            right = NO_SUCH[name]
            yield Finding(
                (*path, *inner),
                (
                    f"{name} does not exist on Vertex AI: RANK is the node's rank, and WORLD_SIZE is the "
                    "node count."
                ),
                f"Use {right}, or read both from CLUSTER_SPEC.",
                (Edit((*path, *inner), text.replace(name, right)),),
            )
        for inner, name, sets in _named(pool):
            if sets and name in NO_SUCH:
                yield Finding(
                    (*path, *inner),
                    f"{name} has no meaning on Vertex AI, and a value set here is the same on every node.",
                    f"Remove the variable, and read {NO_SUCH[name]} in the code.",
                    (Edit((*path, *inner), REMOVED),),
                )


def local_rank(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        for inner, name, sets in _named(pool):
            if name == "LOCAL_RANK" and (sets or name not in _own(pool)):
                yield Finding(
                    (*path, *inner),
                    "Vertex AI never sets LOCAL_RANK; torchrun sets it for each process that it starts"
                    + (", and a fixed value would put all of them on one GPU." if sets else "."),
                    "Start the code with torchrun, and read LOCAL_RANK there.",
                    (Edit((*path, *inner), REMOVED),) if sets else (),
                )


def _about(
    names: Collection[str], *, sets: bool, sentence: str, fix: str
) -> Callable[[Case], Iterator[Finding]]:
    """Build the check of variables that a task sets, or that a task uses without setting them."""

    def check(case: Case) -> Iterator[Finding]:
        for path, pool in case.used:
            for inner, name, is_set in _named(pool):
                if is_set == sets and name in names and (sets or name not in _own(pool)):
                    where = (*path, *inner)
                    yield Finding(where, sentence.format(name), fix, (Edit(where, REMOVED),) if sets else ())

    return check


set_by_vertex = _about(
    {*SET_BY_VERTEX, *OUTPUT},
    sets=True,
    sentence="Vertex AI sets {} for each replica; your value would be the same on all, and the documentation "
    "does not say which value takes precedence.",
    fix="Remove it.",
)
master_port = _about(
    ("MASTER_PORT",),
    sets=True,
    sentence="Vertex AI sets {} on jobs with several replicas; its value is not documented, and other ports "
    "may not be reachable by the replicas' names.",
    fix="Remove the variable, or rendezvous at the address of rank 0.",
)
dataset = _about(
    DATASET,
    sets=False,
    sentence="{} exists only in training pipelines with a managed dataset.",
    fix="Pass the data's location as an argument, for example /gcs/BUCKET/PATH.",
)
_output_unset = _about(
    OUTPUT,
    sets=False,
    sentence="{} is set only if the job has an output directory; this job has none.",
    fix="Set baseOutputDirectory.outputUriPrefix to gs://BUCKET/PATH.",
)


def output_variable(case: Case) -> Iterator[Finding]:
    if not within(case.spec, "baseOutputDirectory", "outputUriPrefix"):
        yield from _output_unset(case)


def persistent_disk(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        for inner, text in _texts(pool):
            if "/mnt/disks/" in text:
                yield Finding(
                    (*path, *inner),
                    "no disk is attached at /mnt/disks: a replica has only its boot disk, which is deleted "
                    "at the end.",
                    "Store data and checkpoints in /gcs/BUCKET/PATH, or add an NFS or Lustre mount.",
                )


def one_process(case: Case) -> Iterator[Finding]:
    """Warn only for torch, because one TensorFlow or JAX process uses every GPU of its machine."""
    for path, pool in case.used:
        _, kind, count = machine_of(pool)
        container = pool.get("containerSpec") or {}
        command = [str(word) for word in container.get("command") or []]
        words = " ".join([*command, *map(str, container.get("args") or [])])
        torch = "torch" in f"{container.get('imageUri') or ''} {words}".lower()
        starts = command and re.fullmatch(r"(?:.*/)?python[\d.]*", command[0]) and words.count(".py") == 1
        launched = any(w in words for w in _LAUNCHERS)
        if torch and starts and count > 1 and kind.startswith("NVIDIA_") and not launched:
            yield Finding(
                (*path, "containerSpec", "command"),
                f"this starts one process on a machine with {count} GPUs; unless the script starts the "
                "others itself, LOCAL_RANK is missing and only one GPU works.",
                f"Start the script with torchrun --nproc-per-node={count}.",
            )


def nccl(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        name, task = task_of(pool)
        for i, variable in enumerate(task.get("env") or []):
            key, value = str(variable.get("name") or ""), str(variable.get("value") or "")
            trouble = _nccl(key, value, machine_of(pool))
            if trouble:
                where = (*path, name, "env", i)
                yield Finding(
                    where,
                    trouble,
                    "Remove the variable; NCCL chooses the transport itself.",
                    (Edit(where, REMOVED),),
                )


def _nccl(key: str, value: str, machine: tuple[str, str, int]) -> str:
    """Return the problem of one NCCL setting, or ""."""
    on = value.strip().lower() not in {"", "0", "false"}
    if key == "NCCL_PLUGIN_P2P":
        return "NCCL_PLUGIN_P2P is not documented for Vertex AI, which has no InfiniBand for a plugin."
    if key in {"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE"} and on and machine[2] > 1:
        return f"{key} makes the GPUs of one machine communicate over a slower path."
    if key == "NCCL_IB_DISABLE" and on and machine[0] in _RDMA:
        return f"NCCL_IB_DISABLE turns off RDMA, the fast network of {machine[0]}."
    if key == "NCCL_IB_DISABLE" and not on and value and machine[0] not in _RDMA:
        return f"{machine[0]} has no InfiniBand for NCCL to use."
    return ""


def lone_second_node(case: Case) -> Iterator[Finding]:
    if len(case.used) < 2 or whole(case.used[0][1].get("replicaCount")) != 1:
        return
    primary, second = case.used[0], case.used[1]
    first, other = machine_of(primary[1]), machine_of(second[1])
    if second[0][-1] == 1 and first[1] and other[1] and first != other:
        yield Finding(
            (*second[0], "machineSpec"),
            f"the primary is {first[0]} with {first[2]} × {first[1]}, but the workers are {other[0]} "
            f"with {other[2]} × {other[1]}; in data-parallel training every replica waits for the "
            "slowest.",
            "Use the same machine in both pools, unless the roles differ.",
        )


RULES = (
    Rule(
        "runtime.no-such-variable",
        "docs/facts/vertex.md 3.3 and 14.1",
        no_such_variable,
        ProblemSeverity.WARNING,
    ),
    Rule("runtime.local-rank", "docs/facts/vertex.md 3.3 and 14.1", local_rank, ProblemSeverity.WARNING),
    Rule("runtime.set-by-vertex", "docs/facts/vertex.md 3.1 to 3.6", set_by_vertex, ProblemSeverity.WARNING),
    Rule("runtime.master-port", "docs/facts/vertex.md 3.3 and 14.1", master_port, ProblemSeverity.WARNING),
    Rule("runtime.dataset-variable", "docs/facts/vertex.md 3.4 and 14.1", dataset, ProblemSeverity.WARNING),
    Rule("runtime.output-variable", "docs/facts/vertex.md 3.6", output_variable, ProblemSeverity.WARNING),
    Rule("runtime.persistent-disk", DISTRIBUTED, persistent_disk, ProblemSeverity.WARNING),
    Rule("runtime.one-process", "docs/facts/vertex.md 14.1", one_process, ProblemSeverity.WARNING),
    Rule("runtime.nccl", "docs/facts/vertex.md 3.9 and 14.6", nccl, ProblemSeverity.WARNING),
    Rule("runtime.mixed-workers", DISTRIBUTED, lone_second_node, ProblemSeverity.NOTE),
)
