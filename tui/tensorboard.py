"""TensorBoard on a job's events: the user's own installed program, which vxtui does not depend on."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tui.backends.interface import Backend
from tui.domain.core.job import Job
from tui.domain.spec.spec_format import format_of
from tui.domain.training.event_folder import event_folder
from tui.kinds.registry import kind_of

NAME = "tensorboard"
HOST = "127.0.0.1"
FIRST_PORT, LAST_PORT = 6006, 6105
"""Ports that are tried where none is asked for; the first is TensorBoard's own."""
READY_SECONDS = 120.0
"""Longest start: it imports much, and a loaded machine is slow."""
END_SECONDS = 5.0
SAID_LINES = 5
GCS_READERS = ("gcsfs", "tensorflow")
"""Packages of which TensorBoard needs one to read gs:// itself."""


class TensorBoardError(Exception):
    """It can't be shown: what is missing, and what to do. `code` and `exit_code` are those of a verb."""

    code = "UNAVAILABLE"
    exit_code = 5

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message, self.fix = message, fix


class NoEvents(TensorBoardError):
    """The job has no folder for them."""

    code = "FAILED_PRECONDITION"
    exit_code = 1


@dataclass(frozen=True, slots=True)
class Running:
    """A TensorBoard that answers."""

    url: str
    folder: str
    """What it shows: a folder of this machine, or gs://."""
    process: asyncio.subprocess.Process

    @property
    def pid(self) -> int:
        return self.process.pid


async def events_of(backend: Backend, job: Job) -> str:
    """Where the job's events are: a folder of this machine, or gs://.

    Raises BackendError, TensorBoardError.
    """
    # Storage belongs to one context.
    backend = backend.owner(job.name)
    name = job.name if job.composite else job.runner
    if not name:
        raise NoEvents(
            f"{job.display_name} has no events of its own; the jobs of its tasks have.",
            f"`vxtui tasks {job.id}` names them.",
        )
    uri = event_folder(await backend.job_service(name).spec(name))
    body = kind_of(job).body
    if not uri and body and format_of(body).family == "kubernetes":
        raise NoEvents(
            f"{job.display_name} is in a cluster, which knows no folder for its events.",
            f"Run `{NAME} --logdir FOLDER` on the folder that its trainer writes to.",
        )
    if not uri:
        raise NoEvents(
            f"{job.display_name} has no folder of its own for events: it was launched without "
            "baseOutputDirectory.",
            "Set jobSpec.baseOutputDirectory.outputUriPrefix to gs://BUCKET/PATH; its trainer then writes "
            "into AIP_TENSORBOARD_LOG_DIR.",
        )
    local = backend.storage.local_folder(uri)
    return uri if local is None else str(local)


def find_program() -> str:
    """The installed program: beside this Python, else on PATH. Raises TensorBoardError."""
    beside = Path(sys.executable).with_name(NAME)
    found = str(beside) if beside.is_file() else shutil.which(NAME)
    if found is None:
        raise TensorBoardError(
            f"TensorBoard is not installed: there is no {beside} and no {NAME} on PATH.",
            f"{sys.executable} -m pip install tensorboard",
        )
    return found


async def check_reads(program: str, folder: str) -> None:
    """Raises TensorBoardError where this TensorBoard lacks what reads gs://."""
    if not folder.startswith("gs://"):
        return
    python = interpreter(program)
    code = f"import importlib.util as u; print(any(u.find_spec(name) for name in {GCS_READERS!r}))"
    found = await asyncio.create_subprocess_exec(
        python, "-c", code, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    out, _ = await found.communicate()
    if found.returncode == 0 and out.strip() == b"False":
        raise TensorBoardError(
            f"TensorBoard can't read {folder}: {python} has neither {' nor '.join(GCS_READERS)}.",
            f"{python} -m pip install gcsfs",
        )


def interpreter(program: str) -> str:
    """The Python that runs a console script, by its first line; this one where that is not told."""
    with contextlib.suppress(OSError), Path(program).open("rb") as file:
        first = file.readline(1024)
        words = first[2:].decode(errors="replace").split() if first.startswith(b"#!") else []
        if words and Path(words[0]).name.startswith("python") and Path(words[0]).is_file():
            return words[0]
    return sys.executable


def choose_port(wanted: int | None) -> int:
    """The port to serve on; without a wish the first free one. Raises TensorBoardError."""
    for port in [wanted] if wanted is not None else [*range(FIRST_PORT, LAST_PORT + 1), 0]:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((HOST, port))
                return int(probe.getsockname()[1])
    raise TensorBoardError(f"The port {wanted} is in use.", "Choose another with --port, or leave it out.")


@asynccontextmanager
async def tensorboard(folder: str, port: int | None) -> AsyncIterator[Running]:
    """Run TensorBoard on a folder from when it answers; leaving the context ends it.

    Raises TensorBoardError.
    """
    program = find_program()
    await check_reads(program, folder)
    port = choose_port(port)
    words = ["--logdir", folder, "--host", HOST, "--port", str(port)]
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise TensorBoardError(f"{program} can't be started: {error.strerror}.") from error
    said: list[str] = []
    reading = asyncio.create_task(_read(process, said))
    try:
        await _answers(process, port, said)
        yield Running(f"http://localhost:{port}/", folder, process)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(END_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        reading.cancel()


async def _read(process: asyncio.subprocess.Process, said: list[str]) -> None:
    """Keep the last lines that it wrote, so that it never waits for a reader."""
    assert process.stderr is not None
    while line := await process.stderr.readline():
        said.append(line.decode(errors="replace").rstrip())
        del said[:-SAID_LINES]


async def _answers(process: asyncio.subprocess.Process, port: int, said: list[str]) -> None:
    """Return once it serves. Raises TensorBoardError where it has ended, or takes too long."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(READY_SECONDS):
            while process.returncode is None:
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection(HOST, port)
                    writer.close()
                    return
                await asyncio.sleep(0.1)
    words = "\n".join(said)
    what = "did not start" if process.returncode is not None else f"does not answer on port {port}"
    raise TensorBoardError(f"TensorBoard {what}{f': {words}' if words else '.'}")
