"""TensorBoard of a job: where its events are, which program shows them, and how that is started and ended."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.ui.double import job
from tests.ui.job_double import JobBackend
from tests.waiting import until
from tui import tensorboard
from tui.backends.group import GroupBackend
from tui.backends.interface import StorageService
from tui.config.settings import ALL
from tui.tensorboard import (
    HOST,
    TensorBoardError,
    check_reads,
    choose_port,
    event_folder,
    events_of,
    find_program,
    interpreter,
)

REAL_PYTHON = sys.executable
BASE = {"baseOutputDirectory": {"outputUriPrefix": "gs://b/run/"}}
SERVES = f"""#!{sys.executable}
import http.server, sys
if "--fail" in sys.argv or "missing" in sys.argv[sys.argv.index("--logdir") + 1]:
    sys.exit("no such folder")
host, port = (sys.argv[sys.argv.index(name) + 1] for name in ("--host", "--port"))
http.server.ThreadingHTTPServer((host, int(port)), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


@pytest.mark.parametrize(
    ("resource", "folder"),
    [
        ({"jobSpec": BASE}, "gs://b/run/logs"),
        ({"trialJobSpec": BASE}, "gs://b/run"),
        ({"jobSpec": {}}, ""),
        ({"jobSpec": {"baseOutputDirectory": {}}}, ""),
        ({}, ""),
    ],
)
def test_the_events_are_below_the_jobs_output(resource: dict[str, object], folder: str) -> None:
    assert event_folder(resource) == folder


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that serves as TensorBoard does, the only one that is found."""
    found = tmp_path / "bin" / "tensorboard"
    found.parent.mkdir()
    found.write_text(SERVES)
    found.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv" / "bin" / "python"))
    monkeypatch.setenv("PATH", str(found.parent))
    return found


def test_the_program_beside_this_python_comes_first(program: Path, tmp_path: Path) -> None:
    assert find_program() == str(program)
    beside = tmp_path / "venv" / "bin" / "tensorboard"
    beside.parent.mkdir(parents=True)
    beside.write_text("")
    assert find_program() == str(beside)


def test_it_says_what_to_install(program: Path) -> None:
    program.unlink()
    with pytest.raises(TensorBoardError) as found:
        find_program()
    assert "not installed" in found.value.message
    assert found.value.fix == f"{sys.executable} -m pip install tensorboard"


async def test_it_says_what_reads_a_bucket(program: Path) -> None:
    assert interpreter(str(program)) == SERVES.splitlines()[0][2:]
    await check_reads(str(program), "/a/folder")
    has = [name for name in ("gcsfs", "tensorflow") if _installed(name)]
    if has:
        await check_reads(str(program), "gs://b/run/logs")
        return
    with pytest.raises(TensorBoardError) as found:
        await check_reads(str(program), "gs://b/run/logs")
    assert found.value.fix.endswith("-m pip install gcsfs")


def _installed(name: str) -> bool:
    import importlib.util

    return importlib.util.find_spec(name) is not None


def test_a_port_that_is_in_use_is_refused_or_left_out() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(TensorBoardError, match=f"The port {port} is in use"):
            choose_port(port)
        assert choose_port(None) != port
    assert choose_port(0) > 0


async def test_it_answers_and_ends_with_whoever_started_it(program: Path, tmp_path: Path) -> None:
    async with tensorboard.tensorboard(str(tmp_path), 0) as running:
        process = psutil.Process(running.pid)
        reply = await asyncio.to_thread(urllib.request.urlopen, running.url, None, 30)
        with contextlib.closing(reply):
            assert reply.status == 200
        assert process.is_running()
    assert not process.is_running()


async def test_it_ends_with_a_killed_parent(program: Path, tmp_path: Path) -> None:
    """SIGKILL, as SIGHUP of a lost SSH line, leaves no time to end it."""
    code = (
        "import asyncio, sys\nfrom tui.tensorboard import tensorboard\n"
        "async def run():\n    async with tensorboard(sys.argv[1], 0) as running:\n"
        "        print(running.pid, flush=True)\n        await asyncio.Event().wait()\n"
        "asyncio.run(run())"
    )
    parent = await asyncio.create_subprocess_exec(
        REAL_PYTHON, "-c", code, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    child = psutil.Process(int(await parent.stdout.readline()))
    parent.kill()
    await parent.wait()
    await until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "its end")


async def test_its_last_words_are_told_where_it_does_not_start(program: Path) -> None:
    with pytest.raises(TensorBoardError, match="TensorBoard did not start: no such folder"):
        async with tensorboard.tensorboard("/missing", 0):
            pass


async def test_the_events_of_a_groups_job_are_looked_for_in_its_own_context(tmp_path: Path) -> None:
    class Buckets(StorageService):
        bucket = create_bucket = size_of = upload = None  # type: ignore[assignment]

        def local_folder(self, uri: str) -> Path | None:
            return tmp_path / uri.removeprefix("gs://")

    one, two = JobBackend(job(7, "first")), JobBackend(replace(job(8, "second"), context="two"))
    two.spec = {"jobSpec": {"baseOutputDirectory": {"outputUriPrefix": "gs://b/run"}}}
    two.info = replace(two.info, name="two")
    two.use(storage=Buckets())
    async with GroupBackend(ALL, [one, two]) as group:
        await group.settle()
        (found,) = await group.find_jobs("second")
        assert await events_of(group, found) == str(tmp_path / "b/run/logs")
