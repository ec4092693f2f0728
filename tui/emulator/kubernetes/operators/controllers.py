"""All controllers of operators."""

from __future__ import annotations

from collections.abc import Sequence

from tui.emulator.kubernetes.config import KubernetesConfig
from tui.emulator.kubernetes.controller import Controller
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.operators.batch.controller import BatchJobController
from tui.emulator.kubernetes.operators.garbage import GarbageCollector
from tui.emulator.kubernetes.operators.jobset.controller import JobSetController
from tui.emulator.kubernetes.operators.kueue.jobs import QueuedJobs
from tui.emulator.kubernetes.operators.kueue.scheduler import QueueScheduler
from tui.emulator.kubernetes.operators.mpi.controller import MPIJobController
from tui.emulator.kubernetes.operators.pod_groups import PodGroupController
from tui.emulator.kubernetes.operators.seed import create_missing, queue_over, ready_made_runtimes
from tui.emulator.kubernetes.operators.training.controller import TrainingController
from tui.emulator.kubernetes.operators.training.kinds import PYTORCH, TENSORFLOW
from tui.emulator.kubernetes.operators.trainjob.controller import TrainJobController


def controllers(objects: Objects, config: KubernetesConfig | None = None) -> Sequence[Controller]:
    """Return the controllers of all job kinds. With `config`, create a new cluster's initial objects."""
    if config is not None:
        create_missing(objects, [*ready_made_runtimes(), *queue_over(config.node_pools)])
    return [
        *(TrainingController(objects, kind) for kind in (PYTORCH, TENSORFLOW)),
        MPIJobController(objects),
        TrainJobController(objects),
        JobSetController(objects),
        BatchJobController(objects),
        PodGroupController(objects),
        QueuedJobs(objects),
        QueueScheduler(objects),
        GarbageCollector(objects),
    ]
