"""A create that is interrupted, or whose reply is lost: the user learns what became of the job."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode

from tests.terminal import Terminal
from tests.waiting import LIMIT, until, wait_for
from tests.warm import FORKED, WarmPopen
from tests.wire.fake_vertex import Abort, CustomJob, Fake, FixedEndpoint, backend, connected, serving
from tui.actions.operations import creation
from tui.backends.interface import BackendError, LaunchRequest, QuotaExceeded, Unavailable
from tui.backends.vertex.jobs import service

LAUNCH = LaunchRequest("us-central1", {"displayName": "x", "jobSpec": {"workerPoolSpecs": [{}]}})
NAME = "projects/p/locations/us-central1/customJobs/1"

# The real command line; only the endpoint is the test's.
VXTUI = f"""{FORKED}
import signal, sys
from tests.wire.fake_vertex import FixedEndpoint, backend
from tui.actions.operations import creation
from tui.backends import factory
import tui.cli
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup has programs ignore it
target, creation.INTERRUPT_SECONDS = sys.argv.pop(1), float(sys.argv.pop(1))
opened = factory.open_backend
factory.open_backend = lambda *_: backend(FixedEndpoint({{"us-central1": target}}))
for module in list(sys.modules.values()):
    if getattr(module, "open_backend", None) is opened:
        module.open_backend = factory.open_backend
tui.cli.main()
"""
CONFIG = """
context: a
profile_folder: FOLDER
contexts: [{name: a, project: p, regions: [us-central1]}]
"""
PROFILE = """
displayName: x
region: us-central1
jobSpec:
  workerPoolSpecs:
  - machineSpec: {machineType: n1-standard-4}
    replicaCount: 1
    containerSpec: {imageUri: us-docker.pkg.dev/p/r/i:1}
"""


@dataclass
class Verb:
    """`vxtui` in a process."""

    process: subprocess.Popen[str]

    async def said(self, words: str) -> str:
        """Its next line on stderr with these words."""
        assert self.process.stderr is not None
        async with asyncio.timeout(LIMIT):
            while words not in (line := await asyncio.to_thread(self.process.stderr.readline)):
                assert line, f"it ended without saying {words!r}"
        return line

    async def end(self) -> tuple[int, str, str]:
        """Exit code, stdout and the rest of stderr."""
        out, err = await asyncio.to_thread(self.process.communicate, timeout=LIMIT)
        assert "Traceback" not in out + err
        return self.process.returncode, out, err


def environment(folder: Path) -> dict[str, str]:
    """That of a `vxtui` with one context and the profile x."""
    (folder / "config.yaml").write_text(CONFIG.replace("FOLDER", str(folder)))
    (folder / "x.yaml").write_text(PROFILE)
    return os.environ | {"VXTUI_STATE_DIR": str(folder / "s"), "VXTUI_CONFIG": str(folder / "config.yaml")}


@asynccontextmanager
async def vxtui(folder: Path, fake: Fake, *words: str, seconds: float = 20) -> AsyncIterator[Verb]:
    """A verb in a process; `seconds` is how long an interrupted launch looks for its job."""
    env = environment(folder)
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    async with serving(fake) as target:
        command = [sys.executable, "-c", VXTUI, target, str(seconds), *words]
        process = WarmPopen(command, env=env, stdin=subprocess.DEVNULL, text=True, **pipes)
        try:
            yield Verb(process)
        finally:
            if process.poll() is None:
                process.kill()
                await asyncio.to_thread(process.communicate)


def launching(
    folder: Path, fake: Fake, *options: str, seconds: float = 20
) -> AbstractAsyncContextManager[Verb]:
    """`vxtui launch`, which asks nothing."""
    return vxtui(folder, fake, "launch", "x", "--yes", *options, seconds=seconds)


def silent(fake: Fake) -> asyncio.Event:
    """Have creates act and not answer until the event is set."""
    answers = asyncio.Event()

    async def wait(_request: object) -> None:
        await answers.wait()

    fake.after["CreateCustomJob"] = wait
    return answers


def mark_of(fake: Fake) -> str:
    return str(next(r for r in fake.requests if hasattr(r, "custom_job")).custom_job.labels["vxtui-launch"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_an_interrupted_launch_prints_the_job_that_it_made(
    tmp_path: Path, number: signal.Signals
) -> None:
    fake = Fake()
    silent(fake)
    async with launching(tmp_path, fake, "--json") as launch:
        await until(lambda: fake.jobs, "the create")
        launch.process.send_signal(number)
        code, out, err = await launch.end()
    assert code == 130
    assert json.loads(out)["name"] == NAME
    assert mark_of(fake) in err and "vxtui cancel 1" in err
    assert fake.calls["CreateCustomJob"] == 1
    lines = [json.loads(line) for line in (tmp_path / "s" / "audit.jsonl").read_text().splitlines()]
    assert [(x["result"], x["target"]) for x in lines] == [("asked", "x"), ("done", NAME)]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
async def test_the_next_verb_tells_what_became_of_a_launch_whose_verb_was_killed(
    tmp_path: Path, number: signal.Signals
) -> None:
    """SIGHUP is what a lost SSH line brings."""
    fake = Fake()
    silent(fake)
    async with launching(tmp_path, fake) as launch:
        await until(lambda: fake.jobs, "the create")
        launch.process.send_signal(number)
        await launch.end()
    async with vxtui(tmp_path, fake, "jobs", "--json") as shown:
        _, out, err = await shown.end()
    assert [job["id"] for job in json.loads(out)["jobs"]] == ["1"]
    assert "The launch of x at " in err and "its job exists: x (1)" in err
    async with vxtui(tmp_path, fake, "jobs") as shown:
        _, _, err = await shown.end()
    assert "The launch" not in err
    assert fake.calls["CreateCustomJob"] == 1


async def test_a_killed_launch_that_made_no_job_names_its_label(tmp_path: Path) -> None:
    fake = Fake()

    async def lose(_request: object) -> None:
        await asyncio.Event().wait()

    fake.before["CreateCustomJob"] = lose
    async with launching(tmp_path, fake) as launch:
        await until(lambda: fake.calls["CreateCustomJob"], "the create")
        async with vxtui(tmp_path, fake, "jobs") as shown:
            _, _, err = await shown.end()
        assert "The launch" not in err, "its verb still waits"
        launch.process.kill()
        await launch.end()
    async with vxtui(tmp_path, fake, "jobs") as shown:
        _, _, err = await shown.end()
    assert f"no job with the label vxtui-launch={mark_of(fake)} exists yet" in err
    path = tmp_path / "s" / "audit.jsonl"
    path.write_text(path.read_text().replace(datetime.now(UTC).strftime('"time": "%Y'), '"time": "2025'))
    for said in (True, False):
        async with vxtui(tmp_path, fake, "jobs") as shown:
            _, _, err = await shown.end()
        assert ("nothing was created" in err) is said


async def test_a_reply_that_comes_after_the_interrupt_counts(tmp_path: Path) -> None:
    fake = Fake()
    answers = silent(fake)
    fake.fail("ListCustomJobs", *[Abort(StatusCode.UNAVAILABLE)] * 99)
    async with launching(tmp_path, fake) as launch:
        await until(lambda: fake.jobs, "the create")
        launch.process.send_signal(signal.SIGINT)
        await launch.said("looking for the job")
        answers.set()
        code, out, _ = await launch.end()
    assert (code, out) == (130, f"{NAME}\n")


async def test_an_interrupted_launch_without_a_trace_says_how_to_look(tmp_path: Path) -> None:
    fake = Fake()

    async def lose(_request: object) -> None:
        await asyncio.Event().wait()

    fake.before["CreateCustomJob"] = lose
    async with launching(tmp_path, fake, "--json", seconds=1.5) as launch:
        await until(lambda: fake.calls["CreateCustomJob"], "the create")
        launch.process.send_signal(signal.SIGINT)
        code, out, _ = await launch.end()
    error = json.loads(out)["error"]
    assert code == 130 and error["code"] == "INTERRUPTED"
    assert "no job with the label" in error["message"] and "may still appear" in error["message"]
    assert f"vxtui jobs --filter vxtui-launch:{mark_of(fake)}" in error["fix"]
    assert fake.calls["CreateCustomJob"] == 1 and fake.calls["ListCustomJobs"] >= 1


async def test_a_second_interrupt_ends_at_once_and_still_names_the_label(tmp_path: Path) -> None:
    fake = Fake()

    async def lose(_request: object) -> None:
        await asyncio.Event().wait()

    fake.before["CreateCustomJob"] = lose
    async with launching(tmp_path, fake, "--json", seconds=LIMIT * 2) as launch:
        await until(lambda: fake.calls["CreateCustomJob"], "the create")
        launch.process.send_signal(signal.SIGINT)
        assert mark_of(fake) in await launch.said("ctrl+c again")
        launch.process.send_signal(signal.SIGINT)
        code, out, _ = await launch.end()
    error = json.loads(out)["error"]
    assert code == 130 and error["code"] == "INTERRUPTED" and mark_of(fake) in error["fix"]


async def test_an_interrupt_before_anything_is_sent_claims_no_job() -> None:
    class NoCredentials(FixedEndpoint):
        away = asked = False

        async def ready(self) -> None:
            self.asked = self.away
            if self.away:
                await asyncio.Event().wait()

    fake, told = Fake(), []
    async with serving(fake) as target:
        endpoint = NoCredentials({"us-central1": target})
        async with backend(endpoint) as found:
            endpoint.away = True
            request = replace(LAUNCH, mark="m")
            task = asyncio.create_task(
                creation.create(found.jobs["custom_job"], request, lambda: told.append("interrupt"))
            )
            await until(lambda: endpoint.asked, "the wait for credentials")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            endpoint.away = False
    assert not fake.calls["CreateCustomJob"] and not told


@contextmanager
def console(folder: Path, fake: Fake, seconds: float) -> Iterator[Terminal]:
    """The console on a terminal, and its service on a loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def wait(coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(LIMIT)

    service = serving(fake)
    target = wait(service.__aenter__())
    screen = Terminal([sys.executable, "-c", VXTUI, target, str(seconds)], environment(folder))
    try:
        yield screen
    finally:
        screen.close()
        wait(service.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def launch(screen: Terminal, fake: Fake) -> None:
    """Launch the profile x, up to its create."""
    screen.wait("No jobs")
    screen.press(":")
    screen.wait("Open one job by name")
    screen.press("launch x", "enter")
    screen.wait("Launch x")
    screen.press("enter")
    screen.wait("Launching")
    wait_for(lambda: screen.pump() or fake.calls["CreateCustomJob"], "the create")


@pytest.mark.parametrize("keys", [1, 2], ids=["once", "twice"])
def test_quitting_with_a_launch_on_its_way_says_what_became_of_it(tmp_path: Path, keys: int) -> None:
    fake = Fake()
    silent(fake)
    with console(tmp_path, fake, 20 if keys == 1 else LIMIT * 2) as screen:
        launch(screen, fake)
        if keys == 2:
            fake.fail("ListCustomJobs", *[Abort(StatusCode.UNAVAILABLE)] * 999)
        screen.type(b"\x11")
        screen.wait("no reply has come")
        if keys == 2:
            screen.type(b"\x11")
        assert screen.wait_exit() == 0
        said = bytes(screen.raw).rpartition(b"\x1b[?1049l")[2].decode()
    assert "Traceback" not in said
    if keys == 1:
        assert f"Launched x. The job keeps running: {NAME}. `vxtui cancel 1` ends it." in said
    else:
        assert (
            f"x was sent, but no reply has come. `vxtui jobs --filter vxtui-launch:{mark_of(fake)}`" in said
        )
    assert fake.calls["CreateCustomJob"] == 1


def test_the_next_console_tells_what_became_of_a_launch_whose_console_was_killed(tmp_path: Path) -> None:
    fake = Fake()
    silent(fake)
    with console(tmp_path, fake, 20) as screen:
        launch(screen, fake)
        os.kill(screen.process.pid, signal.SIGKILL)
        screen.wait_exit()
    with console(tmp_path, fake, 20) as screen:
        screen.wait("its job exists: x (1)")
        screen.type(b"\x11")
        screen.wait_exit()
    assert fake.calls["CreateCustomJob"] == 1


async def test_the_command_that_the_messages_name_finds_the_job(tmp_path: Path) -> None:
    fake = Fake()
    for number in (1, 2, 3):
        fake.add_job(number, labels={"vxtui-launch": f"mark{number}"})
    look = replace(LAUNCH, mark="mark2").look_first.split("`")[1].split()
    async with vxtui(tmp_path, fake, *look[1:], "--json") as shown:
        code, out, _ = await shown.end()
    assert code == 0 and [job["id"] for job in json.loads(out)["jobs"]] == ["2"]
    async with vxtui(tmp_path, fake, "jobs", "--filter", "state:nosuch", "--json") as shown:
        code, out, _ = await shown.end()
    assert code == 2 and "unknown state" in json.loads(out)["error"]["message"]


async def test_a_refusal_after_the_job_was_made_finds_it() -> None:
    fake = Fake()
    fake.fail("CreateCustomJob", Abort(StatusCode.RESOURCE_EXHAUSTED, "slow down"), after=True)
    async with connected(fake) as found:
        job = await found.jobs["custom_job"].create(LAUNCH)
    assert job.name == NAME and fake.calls["CreateCustomJob"] == 1


async def test_a_refusal_that_made_no_job_keeps_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "LOOK_AFTER_REFUSAL", (0.05,))
    fake = Fake()
    fake.fail("CreateCustomJob", Abort(StatusCode.RESOURCE_EXHAUSTED, "custom_model_training_cpus is 0"))
    async with connected(fake) as found:
        with pytest.raises(QuotaExceeded, match="custom_model_training_cpus") as refused:
            await found.jobs["custom_job"].create(LAUNCH)
    assert "quotas of that region" in refused.value.fix
    assert fake.calls == {"CreateCustomJob": 1, "ListCustomJobs": 2}


@pytest.mark.parametrize("name", ["", "garbage", "projects/p/locations/us-central1/pipelineJobs/1"])
async def test_a_reply_that_names_no_job_is_not_believed(name: str) -> None:
    fake = Fake()
    create = fake.create

    async def garbled(request: Any) -> Any:
        made = CustomJob()
        made.CopyFrom(await create(request))
        made.name = name
        return made

    fake.create = garbled  # type: ignore[method-assign]
    async with connected(fake) as found:
        assert (await found.jobs["custom_job"].create(LAUNCH)).name == NAME
    assert fake.calls["CreateCustomJob"] == 1


async def test_a_reply_that_is_no_message_is_not_believed() -> None:
    class Noise(Fake):
        def handlers(self) -> Any:
            found = super().handlers()
            handlers = found[0]._method_handlers
            create = "/google.cloud.aiplatform.v1.JobService/CreateCustomJob"
            handlers[create] = handlers[create]._replace(response_serializer=lambda _: b"\xff\xfe")
            return found

    fake: Fake = Noise()
    async with connected(fake) as found:
        assert (await found.jobs["custom_job"].create(LAUNCH)).name == NAME
    assert fake.calls["CreateCustomJob"] == 1


async def test_two_sentences_do_not_run_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "LOOK_AGAIN", ())
    fake = Fake()
    fake.fail("CreateCustomJob", Abort(StatusCode.UNAVAILABLE, "Socket closed"))
    fake.fail("ListCustomJobs", *[Abort(StatusCode.PERMISSION_DENIED)] * 5)
    async with connected(fake) as found:
        with pytest.raises(
            Unavailable, match=r"Socket closed\. It is unknown whether the job exists"
        ) as lost:
            await found.jobs["custom_job"].create(LAUNCH)
    assert isinstance(lost.value, BackendError)
