"""Runs TensorBoard on a job's events: the user's own installed program, which vxtui does not depend on."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tui.backends.interface import Backend
from tui.domain.core.job import Job
from tui.domain.spec.spec_format import format_of
from tui.helper_program import end_group, output_lines, run_helper, start_program
from tui.kinds.registry import kind_of

NAME = "tensorboard"
HOST = "127.0.0.1"
FIRST_PORT, LAST_PORT = 6006, 6105
"""Ports tried if no port is requested; the first is TensorBoard's default."""
READY_SECONDS = 120.0
"""Timeout of the start in seconds, because TensorBoard has many imports, and a busy machine is slow."""
OUTPUT_LINES = 5
GCS_READERS = ("gcsfs", "tensorflow")
"""Packages of which TensorBoard needs one to read gs:// itself."""
_LOGS = "logs"
"""Folder below a job's output: AIP_TENSORBOARD_LOG_DIR (docs/facts/vertex.md 3.6)."""


_PARENT_DEATH_SIGNAL = 1
_LIBC = ctypes.CDLL(None)


def _end_with_parent() -> None:
    """Make the kernel end this new process with its parent, however the parent ends (Linux only)."""
    if sys.platform == "linux":
        _LIBC.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


class TensorBoardError(Exception):
    """TensorBoard can't be shown. The message has cause and fix; `code` and `exit_code` are for verbs."""

    code = "UNAVAILABLE"
    exit_code = 5

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message, self.fix = message, fix


class NoEvents(TensorBoardError):
    """The job has no folder for events."""

    code = "FAILED_PRECONDITION"
    exit_code = 1


@dataclass(frozen=True, slots=True)
class Running:
    """A running TensorBoard."""

    url: str
    folder: str
    """The shown folder, on this machine or on gs://."""
    process: asyncio.subprocess.Process

    @property
    def pid(self) -> int:
        return self.process.pid


async def events_of(backend: Backend, job: Job) -> str:
    """Return the folder of the job's events, on this machine or on gs://. Raises BackendError or
    TensorBoardError."""
    # Storage belongs to one context.
    backend = backend.owner(job.name)
    name = job.name if job.composite else job.runner
    if not name:
        raise NoEvents(
            f"{job.display_name} has no events; the jobs of its tasks have events.",
            f"`vxtui tasks {job.id}` lists the jobs.",
        )
    uri = event_folder(await backend.job_service(name).spec(name))
    body = kind_of(job).body
    if not uri and body and format_of(body).family == "kubernetes":
        raise NoEvents(
            f"{job.display_name} runs in a cluster, which does not record a folder for events.",
            f"Run `{NAME} --logdir FOLDER` on the folder that its trainer writes to.",
        )
    if not uri:
        raise NoEvents(
            f"{job.display_name} has no folder for events: it was launched without baseOutputDirectory.",
            "Set jobSpec.baseOutputDirectory.outputUriPrefix to gs://BUCKET/PATH; its trainer then writes "
            "into AIP_TENSORBOARD_LOG_DIR.",
        )
    local = backend.storage.local_folder(uri)
    return uri if local is None else str(local)


def event_folder(resource: Mapping[str, Any]) -> str:
    """Return the gs:// folder of the events of a job in REST format; "" if it has no output. For a tuning
    job, return the parent folder of all trials' folders."""
    trials = resource.get("trialJobSpec")
    spec = trials or resource.get("jobSpec") or {}
    base = str((spec.get("baseOutputDirectory") or {}).get("outputUriPrefix") or "").rstrip("/")
    if not base:
        return ""
    return base if trials else f"{base}/{_LOGS}"


def find_program() -> str:
    """Return the installed program: beside this Python, or on PATH. Raises TensorBoardError."""
    beside = Path(sys.executable).with_name(NAME)
    program = str(beside) if beside.is_file() else shutil.which(NAME)
    if program is None:
        raise TensorBoardError(
            f"TensorBoard is not installed: neither {beside} nor {NAME} on PATH exists.",
            f"{sys.executable} -m pip install tensorboard",
        )
    return program


async def check_reads(program: str, folder: str) -> None:
    """Raise TensorBoardError if this TensorBoard lacks a reader for gs://."""
    if not folder.startswith("gs://"):
        return
    python = interpreter(program)
    code = f"import importlib.util as u; print(any(u.find_spec(name) for name in {GCS_READERS!r}))"
    check = await run_helper([python, "-c", code], seconds=READY_SECONDS)
    if check.code == 0 and check.output.strip() == b"False":
        raise TensorBoardError(
            f"TensorBoard can't read {folder}: {python} has neither {' nor '.join(GCS_READERS)}.",
            f"{python} -m pip install gcsfs",
        )


def interpreter(program: str) -> str:
    """Return the Python that runs a console script, from its first line, or this Python if the line is not
    readable."""
    with contextlib.suppress(OSError), Path(program).open("rb") as file:
        first = file.readline(1024)
        words = first[2:].decode(errors="replace").split() if first.startswith(b"#!") else []
        if words and Path(words[0]).name.startswith("python") and Path(words[0]).is_file():
            return words[0]
    return sys.executable


def choose_port(requested: int | None) -> int:
    """Return the port to serve on, by default the first free port. Raises TensorBoardError."""
    for port in [requested] if requested is not None else [*range(FIRST_PORT, LAST_PORT + 1), 0]:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((HOST, port))
                return int(probe.getsockname()[1])
    raise TensorBoardError(
        f"The port {requested} is in use.", "Choose another port with --port, or omit the option."
    )


@asynccontextmanager
async def tensorboard(folder: str, port: int | None) -> AsyncIterator[Running]:
    """Run TensorBoard on a folder. Entering the context waits for TensorBoard's answer; leaving the context
    stops TensorBoard. Raises TensorBoardError."""
    program = find_program()
    await check_reads(program, folder)
    port = choose_port(port)
    words = ["--logdir", folder, "--host", HOST, "--port", str(port)]
    try:
        process = await start_program(
            program,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            preexec_fn=_end_with_parent,
        )
    except OSError as error:
        raise TensorBoardError(f"{program} can't be started: {error.strerror}.") from error
    output: list[str] = []
    reading = asyncio.create_task(_read(process, output))
    try:
        await _answers(process, port, output)
        yield Running(f"http://localhost:{port}/", folder, process)
    finally:
        await end_group(process)
        reading.cancel()


async def _read(process: asyncio.subprocess.Process, output: list[str]) -> None:
    """Read TensorBoard's output and store the last lines, so that TensorBoard never blocks on a full pipe."""
    async for line in output_lines(process.stderr):
        output.append(line)
        del output[:-OUTPUT_LINES]


async def _answers(process: asyncio.subprocess.Process, port: int, output: list[str]) -> None:
    """Return once TensorBoard serves. Raises TensorBoardError if it has ended, or takes too long."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(READY_SECONDS):
            while process.returncode is None:
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection(HOST, port)
                    writer.close()
                    return
                await asyncio.sleep(0.1)
    words = "\n".join(output)
    failure = "did not start" if process.returncode is not None else f"does not answer on port {port}"
    raise TensorBoardError(f"TensorBoard {failure}{f': {words}' if words else '.'}")
