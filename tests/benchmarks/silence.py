"""Whether hangs of scripts that know nothing of vxtui are named, and slow runs are not; in real time.

The jobs run in an emulator of this process, all at once, and are read as the jobs list reads them: one read
of the log for all, every 2 s. `SILENCE=input,…` selects kinds.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.benchmarks.harness import Result
from tests.wire.backend_emulator_support import both, launch, pool
from tui.backends.interface import LaunchRequest
from tui.domain.core.job import Job
from tui.domain.core.states import JobState

LENGTH = float(os.environ.get("SILENCE_SECONDS", "300"))
"""Seconds for which the jobs are watched."""
EVERY = 2.0
NAMED, STOPPED = 180.0, 60.0
"""Goals in seconds, of a hang and of a stopped replica."""
_BEGIN = """
import os, queue, signal, socket, subprocess, sys, threading, time, fcntl, pty
rank, ranks, folder = {rank}, {ranks}, {folder!r}
usual, at = {usual}, {at}
def say(text, end="\\n"):
    print(text, end=end, flush=True)
def barrier(step):
    open(f"{{folder}}/{{rank}}-{{step}}", "w").close()
    while any(not os.path.exists(f"{{folder}}/{{other}}-{{step}}") for other in range(ranks)):
        time.sleep(0.02)
def report(step):
    {report}
def hung():
    open(f"{{folder}}/hung", "w").close()
"""
_STEP = 'say(f"step {step} loss {5 / step:.4f}") if rank == 0 else None'
_LOOP = """
for step in range(1, 1000000):
    time.sleep(usual)
    barrier(step)
    if step == at and rank == {culprit}:
        hung()
        hang()
    report(step)
"""


@dataclass(frozen=True, slots=True)
class Script:
    """A script: `code` defines `hang`, or is the loop of a run that is `slow`."""

    code: str
    ranks: int = 1
    culprit: int = 0
    report: str = _STEP
    usual: float = 0.5
    at: int = 60
    slow: bool = False

    def request(self, kind: str, folder: Path) -> LaunchRequest:
        folder.mkdir()
        pools = []
        for rank in range(self.ranks):
            code = _BEGIN.format(
                rank=rank, ranks=self.ranks, folder=str(folder), usual=self.usual, at=self.at,
                report=self.report,
            ) + textwrap.dedent(self.code)  # fmt: skip
            pools.append(pool(code + ("" if self.slow else _LOOP.format(culprit=self.culprit))))
        return launch(*pools, name=kind)


def _hang(body: str, **more: object) -> Script:
    return Script("def hang():\n" + textwrap.indent(textwrap.dedent(body), "    "), **more)  # type: ignore[arg-type]


def _slow(body: str, before: str = "", **more: object) -> Script:
    loop = "for step in range(1, 1000000):\n    time.sleep(usual)\n"
    body = textwrap.indent(textwrap.dedent(body), "    ")
    return Script(textwrap.dedent(before) + "\n" + loop + body, slow=True, **more)  # type: ignore[arg-type]


_BAR = (
    'say(f"\\r{step % 100:3d}%|███   | {step % 100}/100 [00:10<00:50,  2.00it/s, loss={5 / step:.3f}]", "")'
)
_ALL = 'say(f"[rank {rank}] iter {step}: loss {5 / step:.4f}")'
HANGS = {
    "two-locks": _hang("""
        a, b = threading.Lock(), threading.Lock()
        a.acquire()
        def other():
            with b: a.acquire()
        threading.Thread(target=other, daemon=True).start()
        time.sleep(0.1)
        b.acquire()"""),
    "receive": _hang(
        "one, two = socket.socketpair()\none.recv(1)", report='say(f"iteration {step}: loss={5 / step:.3f}")'
    ),
    "sleep": _hang("time.sleep(9999)", report='say(f"Epoch 1 step {step} loss: {5 / step:.3f}")'),
    "rank-sleeps": _hang("time.sleep(9999)", ranks=3, culprit=1),
    "stopped": _hang("os.kill(os.getpid(), signal.SIGSTOP)"),
    "rank-stopped": _hang("os.kill(os.getpid(), signal.SIGSTOP)", ranks=3, culprit=2, report=_ALL),
    "slow-rank-stopped": _hang("os.kill(os.getpid(), signal.SIGSTOP)", ranks=2, culprit=1, usual=5.0, at=12),
    "blocked-write": _hang("os.write(os.pipe()[1], b'x' * 1000000)"),
    "dead-peer": _hang("os._exit(0)", ranks=3, culprit=2),
    "rank-killed-by-itself": _hang("sys.exit(0)", ranks=2, culprit=1, report=_ALL),
    "input": _hang("""
        own, terminal = pty.openpty()
        say("Overwrite the output? [y/N]")
        os.fdopen(terminal).readline()"""),
    "endless-loop": _hang("while True: time.sleep(0.01)"),
    "stuck-loader": _hang("""
        threading.Thread(target=time.sleep, args=(9999,), daemon=True).start()
        queue.Queue().get()"""),
    "zombie": _hang("""
        child = subprocess.Popen(["true"], stdout=subprocess.PIPE)
        reader, writer = os.pipe()
        os.read(reader, 1)"""),
    "waiting-child": _hang('subprocess.run(["sleep", "9999"])'),
    "lock-file": _hang("""
        say("waiting for data.lock")
        while not os.path.exists(folder + "/never"): time.sleep(0.2)"""),
    "flock": _hang("""
        one, two = open(folder + "/l", "w"), open(folder + "/l", "w")
        fcntl.flock(one, fcntl.LOCK_EX)
        fcntl.flock(two, fcntl.LOCK_EX)"""),
    "condition": _hang("""
        condition = threading.Condition()
        with condition: condition.wait()"""),
    "heartbeat": _hang("""
        while True:
            say("worker alive, memory 12 %")
            time.sleep(5)"""),
    "bar": _hang("threading.Event().wait()", report=_BAR),
    "after-saves": _hang("""
        say("saving checkpoint")
        os.read(os.pipe()[0], 1)""", report=f"""{_STEP}
    if step % 20 == 0:
        say("saving checkpoint")
        time.sleep(3)"""),
    "skipped-collective": _hang("barrier('another')", ranks=4, culprit=3),
}  # fmt: skip
SLOW = {
    "steady": _slow("report(step)"),
    "evaluation-without-a-word": _slow("report(step)\nif step % 10 == 0: time.sleep(3 * usual)", usual=5.0),
    "short-evaluations": _slow("report(step)\nif step % 20 == 0: time.sleep(3 * usual)"),
    "long-evaluation": _slow("""
        report(step)
        if step % 90 == 0:
            say("Evaluating 5000 samples")
            time.sleep(100)"""),
    "bar-of-evaluation": _slow("""
        report(step)
        if step % 90 == 0:
            for n in range(1, 21):
                say(f"Validation: {5 * n}%|█   | {n}/20 [00:10<00:50,  5.00s/it]")
                time.sleep(5)"""),
    "compilation": _slow("report(step)", 'say("compiling"); time.sleep(100)'),
    "recompilation": _slow('if step == 80: say("torch.compile: recompiling"); time.sleep(100)\nreport(step)'),
    "big-save": _slow('report(step)\nif step % 80 == 0: say("Saving checkpoint-80"); time.sleep(90)'),
    "save-without-a-word": _slow("report(step)\nif step % 70 == 0: time.sleep(35)"),
    "growing": _slow("time.sleep(0.02 * step)\nreport(step)"),
    "contention": _slow("sum(n * n for n in range(2000000))\nreport(step)", usual=0.1),
    "warm-up": _slow("report(step)", 'say("loading the model"); time.sleep(110)'),
    "rare-lines": _slow("report(step) if step % 60 == 0 else None"),
    "bar-only": _slow("report(step)", report=_BAR),
    "heartbeats": _slow('report(step)\nif step % 20 == 0: say("worker alive")', usual=1.0),
    "many-ranks": _slow("barrier(step)\nreport(step)", ranks=3, report=_ALL, usual=1.0),
    "lines-at-the-start": _slow("report(step) if rank == 0 or step < 15 else None", ranks=3, report=_ALL),
    "epochs": _slow("""
        m = (step - 1) % 60 + 1
        say(f"Epoch [{step // 61}] Iter [{m}/60] loss: {5 / step:.4f}")
        if m == 60: time.sleep(40)"""),
    "other-words": _slow('say(f"processed part {step} ok")'),
    "upload-at-the-end": _slow("""
        if step > 100: time.sleep(9999)
        say(f"step {step}/100 loss {5 / step:.4f}")"""),
    "unsteady": _slow("time.sleep(8 * (step % 7 == 0))\nreport(step)"),
}  # fmt: skip


def run() -> Iterator[Result]:
    """All hangs and slow runs at once."""
    chosen = set(filter(None, os.environ.get("SILENCE", "").split(",")))
    kinds = {kind: script for kind, script in (HANGS | SLOW).items() if not chosen or kind in chosen}
    with tempfile.TemporaryDirectory(prefix="vxsilence") as name:
        named = asyncio.run(_watched(kinds, Path(name)))
    delays: dict[str, float | None] = {kind: named.get(kind) for kind in kinds if kind in HANGS}
    false = [kind for kind in kinds if kind in SLOW and kind in named]
    for kind, delay in delays.items():
        print(f"  {kind}: {'not named' if delay is None else f'{delay:.0f} s'}")
    print(f"  false: {', '.join(false) or 'none'}")
    count = sum(delay is not None and delay <= NAMED for delay in delays.values())
    yield Result(f"of {len(delays)} hangs named within 3 min", count, len(delays) - 1, "", at_least=True)
    stopped = [delay or LENGTH for kind, delay in delays.items() if "stopped" in kind]
    if stopped:
        yield Result("seconds until a stopped replica is named, longest", max(stopped), STOPPED, "s")
    yield Result(f"of {sum(kind in SLOW for kind in kinds)} slow runs named as silent", len(false), 0, "")


async def _watched(kinds: dict[str, Script], root: Path) -> dict[str, float]:
    """Return the seconds from the hang to its name by kind; of a slow run from its start."""
    named: dict[str, float] = {}
    async with both() as (_, backend):
        jobs: dict[str, Job] = {}
        for kind, script in kinds.items():
            jobs[kind] = await backend.jobs["custom_job"].create(script.request(kind, root / kind))
        until = time.monotonic() + LENGTH
        while time.monotonic() < until and not named.keys() >= kinds.keys():
            listed = [job async for page in backend.list_jobs() for job in page.jobs]
            running = [job for job in listed if job.state is JobState.RUNNING]
            progress = await backend.progress.read(running)
            now = datetime.now(UTC).timestamp()
            for job in running:
                kind, silence = job.display_name, progress[job.name].silence
                if silence is None or kind in named:
                    continue
                mark = root / kind / "hung"
                named[kind] = now - (mark.stat().st_mtime if mark.exists() else now)
                print(f"  {kind}: {silence.phrase} {silence.replica}", flush=True)
            await asyncio.sleep(EVERY)
        for kind, job in jobs.items():
            if kind not in named:
                print(f"  {kind}: {(await backend.jobs['custom_job'].get(job.name)).state.value}", flush=True)
            await backend.jobs["custom_job"].cancel(job.name)
    return named
