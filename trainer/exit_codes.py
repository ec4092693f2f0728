"""Exit codes of a training process and of a node's supervisor. The code for signal n is 128 + n, as in a
shell. The processes of a run exchange only these codes; `for_platform` maps them to the container's exit
code."""

from __future__ import annotations

from collections.abc import Mapping

DONE = 0
USAGE = 2
"""Wrong flags or data: a restart can't help."""
PREEMPTED = 75
"""EX_TEMPFAIL: stopped by a signal after a checkpoint was saved; a restart continues."""
RENDEZVOUS_FAILED = 76
"""The other nodes did not join in time."""
PEER_LOST = 77
"""Another node ended the attempt, or the attempt ended before the training processes started."""
REPLICAS_DIFFER = 71
"""EX_OSERR: `--check-replicas` found differing replicas of the state, so a machine is faulty. Another attempt
repeats the steps since the last checkpoint, which may identify the machine."""
SAVE_FAILED = 74
"""EX_IOERR: all steps are done, but the last checkpoint is not saved. Another attempt repeats the last
steps."""
STORE_UNAVAILABLE = 69
"""EX_UNAVAILABLE: --upload-dir did not answer within --store-timeout. Either the listing of its checkpoints
failed at the start, or the last upload failed at the end. A retry may succeed."""
STOPPED = 143
"""128 + SIGTERM: stopped without a checkpoint."""
FINAL = frozenset({DONE, USAGE, PREEMPTED, STOPPED, STORE_UNAVAILABLE})
"""Codes after which another attempt is pointless."""
NAMES = {
    DONE: "done",
    USAGE: "wrong flags or data",
    PREEMPTED: "stopped by a signal, with a checkpoint",
    RENDEZVOUS_FAILED: "the other nodes did not join",
    PEER_LOST: "another node ended the attempt",
    REPLICAS_DIFFER: "replicas of the state differ",
    SAVE_FAILED: "the last checkpoint is not saved",
    STORE_UNAVAILABLE: "the checkpoint store did not answer",
    STOPPED: "stopped by a signal, without a checkpoint",
}
"""Outcomes by code; any other code is the failed process's own code."""
RETRYABLE = frozenset({
    PREEMPTED, RENDEZVOUS_FAILED, PEER_LOST, REPLICAS_DIFFER, SAVE_FAILED, STORE_UNAVAILABLE, STOPPED,
})  # fmt: skip
"""Codes after which a restart of the container may help."""
_FIRST_RETRYABLE = 128
"""Lowest exit code that Kubeflow's operators treat as retryable under the restart policy ExitCode."""
_ON_VERTEX = ("CLUSTER_SPEC", "CLOUD_ML_JOB_ID")
_ON_KUBERNETES = (
    "KUBERNETES_SERVICE_HOST", "PET_NNODES", "TF_CONFIG", "JOBSET_NAME", "JOB_COMPLETION_INDEX",
    "K_MPI_JOB_ROLE",
)  # fmt: skip
"""Variables that identify Kubernetes. Every pod has the first one; operators set the others, which ssh does
not pass on."""
_MPI_OPERATORS_FOLDER = "/etc/mpi/"
_MPI_HOSTFILES = ("OMPI_MCA_orte_default_hostfile", "I_MPI_HYDRA_HOST_FILE", "HYDRA_HOST_FILE")


def for_platform(code: int, env: Mapping[str, str]) -> int:
    """Return the exit code of the container for this outcome.

    Kubeflow's restart policy ExitCode treats 1 to 127 as permanent and restarts from 128 to 255
    (docs/facts/kubeflow.md; the comment of RestartPolicyExitCode in its API agrees). On Kubernetes, 128 is
    added to codes that a restart may help, so that the podFailurePolicy of a Job can match them. Vertex AI
    documents only 6, 11, 134 and 139 (docs/facts/vertex.md 3.8), and torchrun reports 1 for every code, so
    outside Kubernetes the codes are unchanged.
    """
    retry = code in RETRYABLE and code < _FIRST_RETRYABLE and on_kubernetes(env)
    return code + _FIRST_RETRYABLE if retry else code


def on_kubernetes(env: Mapping[str, str]) -> bool:
    """Return whether the container runs in a pod and not on Vertex AI."""
    if any(env.get(name) for name in _ON_VERTEX):
        return False
    by_operator = any(env.get(name, "").startswith(_MPI_OPERATORS_FOLDER) for name in _MPI_HOSTFILES)
    return by_operator or any(env.get(name) for name in _ON_KUBERNETES)
