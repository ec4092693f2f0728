"""Programs in the replicas of running jobs: the backend's service over the emulator's socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc
import psutil
import pytest
from google.protobuf import wrappers_pb2

from tests.processes import asked
from tests.waiting import until
from tests.wire.control import Clients, emulator, pool, python
from tui.backends.errors import BackendError, FailedPrecondition, NotFound
from tui.backends.shells import ShellEnd, ShellRequest, ShellSession
from tui.backends.vertex.shells import EmulatorShells
from tui.backends.vertex.transport.connect import LocalEndpoint
from tui.domain.core import exec_frames as frames
from tui.domain.core.exec_frames import Opening
from tui.emulator.server import Emulator

Served = tuple[Emulator, Clients]
WAITS = "import time\nprint('ready', flush=True)\ntime.sleep(3600)"


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with emulator() as (running, clients):
        yield running, clients


def shells(running: Emulator) -> EmulatorShells:
    return EmulatorShells(LocalEndpoint(running.state), running.state.admin_target)


async def rest_of(session: ShellSession) -> tuple[str, str]:
    """All it still writes, to stdout and to stderr."""
    written = {1: b"", 2: b""}
    while (found := await session.read()) is not None:
        written[found[0]] += found[1]
    return written[1].decode(), written[2].decode()


async def seen(session: ShellSession, text: str) -> str:
    """Its output until `text` is in it."""
    written = ""
    while text not in written:
        found = await session.read()
        assert found is not None, written
        written += found[1].decode(errors="replace")
    return written


def marked(running: Emulator) -> list[psutil.Process]:
    """Processes that a shell in this emulator's replicas started."""
    found = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
            if "VXTUI_SHELL" in environment and str(running.state.root) in environment["VXTUI_ATTEMPT"]:
                found.append(process)
        except psutil.Error:
            continue
    return found


async def test_a_command_has_the_environment_of_its_replica_and_pipes(
    served: Served,
) -> None:
    running, clients = served
    secret = {"env": [{"name": "SECRET_TOKEN", "value": "hunter2-hunter2"}]}
    job = await clients.create(python(WAITS), pool("sleep", "3600", **secret))
    await clients.reach(job.name, "RUNNING")
    script = 'cat; echo "$SECRET_TOKEN $CLOUD_ML_JOB_ID"; pwd; echo wrong >&2; test -t 1 || exit 6'
    async with shells(running).open(job.name, "workerpool1-0", ShellRequest(("sh", "-c", script))) as session:
        await session.write(b"typed\n")
        await session.end_input()
        out, err = await rest_of(session)
    number = job.name.rpartition("/")[2]
    folder = running.state.attempt(number, 1).workdir("workerpool1-0")
    assert out.splitlines() == ["typed", f"hunter2-hunter2 {number}", str(folder)]
    assert (err, session.ended) == ("wrong\n", ShellEnd(6))


async def test_a_shell_has_a_terminal_with_the_users_size_and_signals(
    served: Served,
) -> None:
    running, clients = served
    job = await clients.create(python(WAITS))
    await clients.reach(job.name, "RUNNING")
    request = ShellRequest(size=(91, 17), shell="/bin/bash", term="xterm-256color", colours="truecolor")
    async with shells(running).open(job.name, "workerpool0-0", request) as session:
        await session.write(b'stty size; echo "$TERM $COLORTERM $SHELL"\n')
        assert "17 91" in await seen(session, "xterm-256color truecolor /bin/bash\r\n")
        # A key and a new size at once: neither is lost.
        await asyncio.gather(session.resize(50, 9), session.write(b"\x15"), session.write(b"echo si''ze\n"))
        await seen(session, "size\r\n")
        await session.write(b"stty size\n")
        await seen(session, "9 50\r\n")
        await session.write(b"sleep 1000\n")
        await until(lambda: any(asked(p.name, "") == "sleep" for p in marked(running)), "the sleep")
        await session.write(b"\x03")
        await session.write(b"echo st''atus $?\n")
        await seen(session, "status 130")
        await session.write(b"kill -TERM $$; kill -9 $$\n")
        await rest_of(session)
    assert session.ended == ShellEnd(137)


@pytest.mark.parametrize("how", ["exits", "leaves"])
async def test_nothing_that_a_shell_started_outlives_it(served: Served, how: str) -> None:
    running, clients = served
    job = await clients.create(python(WAITS))
    await clients.reach(job.name, "RUNNING")
    request = ShellRequest(size=(80, 24), shell="/bin/bash")
    async with shells(running).open(job.name, "workerpool0-0", request) as session:
        await session.write(b"setsid nohup sleep 3600 > /dev/null 2>&1 & sleep 3601 &\n")
        await until(lambda: [asked(p.name, "") for p in marked(running)].count("sleep") == 2, "two programs")
        if how == "exits":
            await session.write(b"exit 3\n")
            await rest_of(session)
            assert session.ended == ShellEnd(3)
            assert not marked(running)
    await until(lambda: not marked(running), "the end of all that the shell started")
    assert await clients.state(job.name) == "JOB_STATE_RUNNING"


async def test_a_shell_ends_with_its_replica_and_with_the_emulator(served: Served) -> None:
    running, clients = served
    job = await clients.create(python(WAITS))
    await clients.reach(job.name, "RUNNING")
    async with shells(running).open(job.name, "workerpool0-0", ShellRequest(("sleep", "3600"))) as session:
        await clients.jobs.cancel_custom_job(name=job.name)
        await rest_of(session)
    assert session.ended == ShellEnd(None, "workerpool0-0 has ended, and so has its shell.")
    await clients.reach(job.name, "CANCELLED")
    assert not marked(running)


async def test_the_end_of_the_emulator_ends_its_shells() -> None:
    async with emulator() as (running, clients):
        job = await clients.create(python(WAITS))
        await clients.reach(job.name, "RUNNING")
        opened = shells(running).open(job.name, "workerpool0-0", ShellRequest(("sleep", "3600")))
        session = await opened.__aenter__()
    await rest_of(session)
    assert session.ended is not None and session.ended.exit_code is None
    assert not marked(running)
    await opened.__aexit__(None, None, None)


async def refused(running: Emulator, job: str, replica: str, *command: str) -> BackendError:
    with pytest.raises(BackendError) as found:
        async with shells(running).open(job, replica, ShellRequest(command)):
            pass
    return found.value


async def test_what_does_not_run_has_no_shell(served: Served) -> None:
    running, clients = served
    job = await clients.create(python(WAITS), python("print('over', flush=True)"))
    await clients.reach(job.name, "RUNNING")
    record = running.state.attempt(job.name.rpartition("/")[2], 1)
    error = await refused(running, job.name, "workerpool7-0")
    assert isinstance(error, NotFound) and "The job's replicas: workerpool0-0, workerpool1-0" in error.message
    worker, said = str(record.workdir("workerpool1-0")), record.output("workerpool1-0", "stdout")
    await until(lambda: said.exists() and said.read_text() and worker not in folders(), "the worker's end")
    error = await refused(running, job.name, "workerpool1-0")
    assert isinstance(error, FailedPrecondition) and "it has ended" in error.message
    async with shells(running).open(job.name, "workerpool0-0", ShellRequest(("no-such-program",))) as session:
        _, err = await rest_of(session)
    assert session.ended == ShellEnd(127) and err == "no-such-program: command not found\n"
    await clients.jobs.cancel_custom_job(name=job.name)
    await clients.reach(job.name, "CANCELLED")
    error = await refused(running, job.name, "workerpool0-0")
    assert isinstance(error, FailedPrecondition) and "the job has ended" in error.message
    assert isinstance(await refused(running, f"{job.name}0", "workerpool0-0"), NotFound)


def folders() -> list[str]:
    """Working directories of this machine's processes."""
    found = []
    for process in psutil.process_iter():
        try:
            found.append(process.cwd())
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize("first", [b"", b"[]", b"{", b'{"job": 1}', b'{"terminal": "x"}'])
async def test_garbage_is_refused(served: Served, first: bytes) -> None:
    _, clients = served
    kind = wrappers_pb2.BytesValue
    method = clients.channel.stream_stream(
        frames.METHOD, request_serializer=kind.SerializeToString, response_deserializer=kind.FromString
    )
    call = method()
    await call.write(kind(value=first))
    with pytest.raises(grpc.RpcError):
        await call.read()
    assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_what_fails_in_the_middle_of_a_shell_ends_it(served: Served) -> None:
    running, clients = served
    job = await clients.create(python(WAITS))
    await clients.reach(job.name, "RUNNING")
    kind = wrappers_pb2.BytesValue
    call = clients.channel.stream_stream(
        frames.METHOD, request_serializer=kind.SerializeToString, response_deserializer=kind.FromString
    )()
    opening = Opening(job.name, "workerpool0-0", ("sleep", "3600"))
    await call.write(kind(value=opening.encode()))
    assert (await call.read()).value == b""
    await call.write(kind(value=frames.frame(frames.RESIZE, b"no size")))
    await until(lambda: not marked(running), "the end of the program")
    assert running.reachable()
