"""The log of a failed job is compared with that of the last job of its name that succeeded."""

from __future__ import annotations

from tests.wire.control import PARENT, emulator, python
from tui.backends.interface import ContextInfo
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.transport.connect import LocalEndpoint
from tui.domain.diagnosis.rules import shipped_rules
from tui.verbs.log.diagnosis import good_templates, verdict_of

_, PROJECT, _, REGION = PARENT.split("/")
SETUP = "print('table of shapes is stale, so it is rebuilt', flush=True)"


async def test_what_an_earlier_job_of_the_name_printed_is_not_new() -> None:
    async with (
        emulator() as (running, clients),
        VertexBackend(ContextInfo("local", PROJECT, (REGION,)), LocalEndpoint(running.state)) as backend,
    ):
        good = await clients.create(python(SETUP), name="tok")
        await clients.reach(good.name, "SUCCEEDED")
        other = await clients.create(python("print('the licence is stale')"), name="other")
        fails = f"{SETUP}\nprint('the licence is stale'); raise SystemExit(3)"
        made = await clients.create(python(fails), name="tok")
        for name, state in ((other.name, "SUCCEEDED"), (made.name, "FAILED")):
            await clients.reach(name, state)
        job = await backend.job_service(made.name).get(made.name)
        verdict = await verdict_of(backend, job, shipped_rules(), await good_templates(backend, job))
        assert [new.line.text for new in verdict.new] == ["the licence is stale"]
        alone = await verdict_of(backend, job, shipped_rules())
        assert len(alone.new) == 2
