"""Milestones of a script that knows nothing of the console, read from the emulator's log after its end."""

from __future__ import annotations

from tests.wire.control import PARENT, emulator, python
from tui.backends.interface import ContextInfo
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.transport.connect import LocalEndpoint
from tui.domain.attempts.history import TimeBucket
from tui.domain.attempts.milestones import MilestoneKind
from tui.store.jobs.attempts import read_attempts

_, PROJECT, _, REGION = PARENT.split("/")
SCRIPT = """
print("Epoch 1/2 - loss: 2.1", flush=True)
print("Saving model checkpoint to /tmp/out/checkpoint-500", flush=True)
print("Resuming training from checkpoint at step 500", flush=True)
print("validation loss 1.9", flush=True)
print("nothing of interest", flush=True)
"""


async def test_checkpoints_and_evaluations_of_a_script() -> None:
    async with (
        emulator() as (running, clients),
        VertexBackend(ContextInfo("local", PROJECT, (REGION,)), LocalEndpoint(running.state)) as backend,
    ):
        name = str((await clients.create(python(SCRIPT))).name)
        await clients.reach(name, "SUCCEEDED")
        history = await read_attempts(backend, await backend.job_service(name).get(name))
    assert history is not None and TimeBucket.PROVISIONING in history.seconds
    kinds = [milestone.kind for milestone in history.milestones if milestone.replica == "workerpool0-0"]
    assert kinds == [MilestoneKind.CHECKPOINT, MilestoneKind.LOADING, MilestoneKind.EVALUATION]
