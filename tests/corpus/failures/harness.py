"""Runs a case: real processes, one a rank, with the output of each stamped as it arrives."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.corpus.failures.case import Case

SCRIPTS = Path(__file__).parent / "scripts"
SECOND = 60.0
SERVER = "{server}"
"""Stands in a case's `replace` for the address of the server on loopback."""
DEFAULTS: dict[str, Any] = {
    "dialect": "plain",
    "noise": ["omp", "future"],
    "steps": 40,
    "save_every": 20,
    "print_every": 5,
    "newline_every": 10**9,
    "step_seconds": 1.0,
    "scale": SECOND,
    "collective": "gloo",
    "collective_timeout": 600.0,
    "join_timeout": 900.0,
    "frames": 7,
    "channels": 4,
    "chatty": False,
    "print_local0": False,
    "all_save": False,
    "output": "/gcs/train-artifacts/run",
    "rank_prefix": False,
    "launcher": "torchrun",
    "launcher_delay": 0.3,
}


@dataclass(slots=True)
class Entry:
    t: float
    replica: str
    severity: str
    text: str


@dataclass
class Recording:
    """What a run printed, and how each replica ended."""

    entries: list[Entry]
    codes: dict[str, int | None]
    first_failed: str
    stopped: set[str]
    epoch: float
    job: dict[str, Any] | None = None
    """The job as a service reported it."""


def names(case: Case) -> list[str]:
    """The replicas of a case in the words of its platform."""
    count = case.replicas
    if case.platform == "kubernetes":
        return ["train-master-0", *(f"train-worker-{n}" for n in range(count - 1))]
    return ["workerpool0-0", *(f"workerpool1-{n}" for n in range(count - 1))]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Run:
    """The processes of one case."""

    def __init__(self, case: Case, python: str, servers: tuple[str, str]) -> None:
        self.case = case
        self.python = python
        self.server, self.tls_server = servers
        self.entries: list[Entry] = []
        self.lock = threading.Lock()
        self.codes: dict[str, int | None] = {}
        self.order: list[str] = []
        self.stopped: set[str] = set()
        self.settings = DEFAULTS | {"seed": case.seed, "hooks": case.hooks, "ranks": case.ranks}
        self.settings |= case.settings
        self.scale = float(self.settings["scale"])
        self.epoch = 1780000000.0 + random.Random(case.seed).randrange(15 * 10**6) + 0.25
        self.settings.setdefault("epoch", self.epoch)
        self.epoch = self.settings["epoch"]

    def now(self) -> float:
        return self.epoch + (time.time() - self.started) * self.scale

    def record(self) -> Recording:
        """Run all replicas to their end."""
        with tempfile.TemporaryDirectory(prefix="corpus-") as folder:
            work = Path(folder)
            self.prepare(work)
            try:
                self.run(work)
            finally:
                for name in ("small", "readonly"):
                    if (work / name).is_mount():
                        subprocess.run(["umount", "-l", work / name], check=False)
        self.entries.sort(key=lambda e: e.t)
        for entry in self.entries:
            entry.text = self.clean(entry.text, folder)
        failed = [n for n in self.order if self.codes[n]]
        return Recording(self.entries, self.codes, failed[0] if failed else "", self.stopped, self.epoch)

    def clean(self, text: str, folder: str) -> str:
        """Replace the paths and addresses of this machine by those of an image and its services."""
        venv = str(Path(self.python).parent.parent)
        prefix = str(Path(sys.executable).parent.parent)
        rules = [
            *((self.server if old == SERVER else old, new) for old, new in self.case.replace),
            (f"{folder}/app/", "/app/"),
            (f"{folder}/peers/", "/opt/conda/lib/python3.11/site-packages/torch/distributed/"),
            (f"{folder}/torch/", "/app/"),
            (f"{folder}/small", "/mnt/checkpoints"),
            (f"{folder}/readonly", "/mnt/models"),
            (folder, "/workspace"),
            *((root + "/lib/python3.11/", "/opt/conda/lib/python3.11/") for root in (venv, prefix)),
            *((root + "/bin/", "/opt/conda/bin/") for root in (venv, prefix)),
            *((root, "/opt/conda") for root in (os.path.realpath(sys.prefix), sys.base_prefix)),
            (os.path.realpath(self.python).rsplit("/bin/", 1)[0], "/opt/conda"),
        ]
        for old, new in rules:
            text = text.replace(old, new)
        return text

    def prepare(self, work: Path) -> None:
        case = self.case
        for part in ("app", "peers", "torch"):
            if (SCRIPTS / part).exists():
                shutil.copytree(SCRIPTS / part, work / part)
        if case.entry != "train.py":
            (work / "app" / "train.py").rename(work / "app" / case.entry)
        for name, options in (("small", "size=3m"), ("readonly", "size=1m,ro")):
            (work / name).mkdir()
            if any(h["call"].startswith("checkpointing.") for h in case.hooks) or name.upper() in case.env:
                subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", work / name], check=True)
        if any(h["call"] == "system.cxx_throw" for h in case.hooks):
            shutil.copy(SCRIPTS / "kernel_runner.cpp", work)
            subprocess.run(["g++", "-O0", "-o", "kernel_runner", "kernel_runner.cpp"], check=True, cwd=work)
        work.chmod(0o777)
        (work / "app").chmod(0o777)

    def environment(self, work: Path, node: int, port: int) -> dict[str, str]:
        case = self.case
        ranks = case.ranks
        keep = ("PATH", "LANG", "LC_ALL", "TMPDIR")
        env = {k: v for k, v in os.environ.items() if k in keep}
        env |= {
            "HOME": str(work),
            "PYTHONPATH": f"{work}/app:{work}/peers",
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "WORLD_SIZE": str(case.replicas * ranks),
            "RANK": str(node * ranks),
            "LOCAL_RANK": "0",
            "GROUP_RANK": str(node),
            "REPLICA": names(case)[node],
            "MASTER_PORT": str(port),
            "MASTER_ADDR": "127.0.0.1",
            "WORK": str(work),
            "ENTRY": case.entry,
            "SMALL_DISK": f"{work}/small",
            "READ_ONLY_DISK": f"{work}/readonly",
            "SERVER": self.server,
            "TLS_SERVER": self.tls_server,
            "HF_ENDPOINT": self.server,
            "HF_HUB_DISABLE_XET": "1",
            "RUN_SETTINGS": json.dumps(self.settings),
            "RUN_STARTED": str(self.started),
            "PYTHON": self.python,
            "SCRIPTS": str(SCRIPTS),
        }
        return env | {k: v.format(server=self.server, work=work, node=node) for k, v in case.env.items()}

    def command(self, work: Path, node: int, port: int) -> list[str]:
        case = self.case
        if case.command == "app":
            entry = f"{work}/app/{case.entry}"
            if case.ranks == 1:
                return [self.python, entry]
            return [self.python, f"{work}/peers/launcher.py", entry]
        values = {
            "python": self.python,
            "work": work,
            "node": node,
            "nodes": case.replicas,
            "ranks": case.ranks,
            "port": port,
            "server": self.server,
        }
        return ["bash", "-c", case.command.format(**values)]

    def run(self, work: Path) -> None:
        case = self.case
        port = free_port()
        self.started = time.time()
        processes: dict[str, subprocess.Popen[bytes]] = {}
        readers: list[threading.Thread] = []
        for node, name in enumerate(names(case)):
            process = subprocess.Popen(
                self.command(work, node, port),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                stdin=subprocess.DEVNULL,
                cwd=work / "app" if case.command == "app" else work / "torch",
                env=self.environment(work, node, port),
                start_new_session=True,
            )
            processes[name] = process
            assert process.stdout and process.stderr
            for stream, severity in ((process.stdout, "INFO"), (process.stderr, "ERROR")):
                reader = threading.Thread(target=self.read, args=(stream, name, severity), daemon=True)
                reader.start()
                readers.append(reader)
        try:
            self.watch(processes)
        finally:
            for process in processes.values():
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        for reader in readers:
            reader.join(5)

    def watch(self, processes: dict[str, subprocess.Popen[bytes]]) -> None:
        """Act as the service: note who ends, end the others after the first failure."""
        case = self.case
        signals = sorted(case.kill)
        term_at = self.epoch + case.cancel_at if case.cancel_at is not None else None
        kill_at: float | None = None
        while processes.keys() - self.codes.keys():
            for name, process in processes.items():
                if name not in self.codes and (code := process.poll()) is not None:
                    self.codes[name] = 128 - code if code < 0 else code
                    self.order.append(name)
                    if code and term_at is None:
                        term_at = self.now() + case.grace
                    if name == "workerpool0-0" and code == 0 and term_at is None:
                        term_at = self.now() + 30
            if signals and self.now() - self.epoch >= signals[0][0]:
                _, name, number = signals.pop(0)
                if name not in self.codes:
                    self.send(processes[name], number)
            if term_at is not None and kill_at is None and self.now() >= term_at:
                kill_at = self.now() + 30
                for name, process in processes.items():
                    if name not in self.codes:
                        self.stopped.add(name)
                        self.send(process, signal.SIGTERM)
            if (kill_at is not None and self.now() >= kill_at) or time.time() - self.started > case.limit:
                for name, process in processes.items():
                    if name not in self.codes:
                        self.stopped.add(name)
                        self.send(process, signal.SIGKILL)
            time.sleep(0.004)

    def send(self, process: subprocess.Popen[bytes], number: int) -> None:
        with suppress(ProcessLookupError):
            if number == signal.SIGTERM or self.case.ranks > 1:
                os.kill(process.pid, number)
            else:
                os.killpg(process.pid, number)

    def read(self, stream: IO[bytes], name: str, severity: str) -> None:
        for raw in iter(stream.readline, b""):
            text = raw.decode(errors="replace").rstrip("\n")
            with self.lock:
                self.entries.append(Entry(self.now(), name, severity, text))
