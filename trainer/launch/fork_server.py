"""The process that forks training processes: it imports torch once, so that an attempt need not.

It starts while the supervisor joins the rendezvous, and ends with the supervisor. It computes nothing and
opens no GPU: neither threads nor a CUDA context survive a fork. If an import opened a GPU or failed, each
process starts as a Python of its own, which is slower and always works.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.checkpoint.locations import needs_client, upload_uri
from trainer.config import parse
from trainer.errors import UsageError
from trainer.launch import script_process
from trainer.launch.messages import MessageStream
from trainer.launch.rank_process import run_rank_with
from trainer.prctl import die_with_parent, set_process_name
from trainer.registry import STRATEGIES, model_entry

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_CHUNK = 65536


class ForkServer:
    """The supervisor's side: starts, signals and watches this node's processes, by local rank."""

    def __init__(self, argv: Sequence[str]) -> None:
        """`argv` are `task` and the run's flags, or `script` and its command line."""
        self._argv = list(argv)
        self._process: subprocess.Popen[bytes] | None = None
        self._stream: MessageStream
        self._gpus: int | None = None
        self._requested = False
        self._running: set[int] = set()
        self.start()

    def start(self) -> None:
        """Start it unless it runs; it imports in parallel what the processes need."""
        if self._process is not None and self._process.poll() is None and not self._stream.closed:
            return
        self.close()
        self._requested = False
        ours, theirs = socket.socketpair()
        command = [
            sys.executable,
            *(["-P"] if sys.flags.safe_path else []),
            "-u",
            "-m",
            "trainer.launch.fork_server",
            str(theirs.fileno()),
            *self._argv,
        ]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        self._stream = MessageStream(ours)

    def gpu_count(self, wait: float) -> int | None:
        """GPUs of this node; None if that is unknown after `wait` seconds.

        Raises:
            RuntimeError: if the fork server has ended.
        """
        if self._gpus is None:
            self.start()
            if not self._requested:
                self._stream.send(count=True)
                self._requested = True
            self._poll(wait)
            if self._stream.closed:
                raise RuntimeError("the fork server, which imports torch, ended before the training started")
        return self._gpus

    def spawn(self, environments: Sequence[Mapping[str, str]]) -> None:
        """Start a process for each environment, with the run's arguments."""
        self.start()
        self._running = set(range(len(environments)))
        self._stream.send(spawn=list(environments))

    def ended(self, wait: float) -> list[tuple[int, int]]:
        """Local ranks that ended within `wait` seconds, with their exit codes: 128 + n for signal n."""
        ended = [(message["ended"], message["code"]) for message in self._poll(wait) if "ended" in message]
        if self._stream.closed:
            # The kernel kills its forked processes.
            ended += [(rank, 128 + signal.SIGKILL) for rank in self._running - {rank for rank, _ in ended}]
        self._running -= {rank for rank, _ in ended}
        return ended

    def signal(self, number: int) -> None:
        """Send a signal to all running processes; SIGKILL also to their children."""
        self._stream.send(signal=number)

    def close(self) -> None:
        """End it and all running processes."""
        if self._process is not None:
            self._stream.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(2)
            self._process.kill()
            self._process.wait()

    def _poll(self, wait: float) -> list[dict[str, Any]]:
        if not self._stream.closed:
            select.select([self._stream.sock], [], [], wait)
        messages = self._stream.receive()
        for message in messages:
            self._gpus = message.get("devices", self._gpus)
        return messages


def main() -> int:
    """Serve until the supervisor ends; a forked process trains. `sys.argv`: a file descriptor, `argv`."""
    die_with_parent()
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    sock = socket.socket(fileno=int(sys.argv[1]))
    sock.set_inheritable(False)
    kind, *argv = sys.argv[2:]
    program = _PROGRAMS[kind]
    # Modules are never garbage: collecting would take a fifth of the time.
    gc.disable()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program.preload(argv)
    gc.freeze()
    gc.enable()
    return Server(sock, program, argv).serve()


@dataclass(frozen=True, slots=True)
class _Forked:
    """What runs in the forked processes: all take the arguments.

    `preload` imports what a process needs before its first step, and nothing that opens a GPU; `run` returns
    the exit code; `command` is for a process that can't be forked, because the module `needed` is missing.
    """

    preload: Callable[[Sequence[str]], None]
    run: Callable[[Sequence[str]], int]
    command: Callable[[Sequence[str]], list[str]]
    needed: str


def _preload_task(argv: Sequence[str]) -> None:
    config = parse(argv)
    model = model_entry(config.model.model)
    packages = model.preload if model else ()
    client = needs_client(upload_uri(config.checkpoint.upload_dir, os.environ))
    names = [
        "trainer.train",
        "trainer.elastic.training",
        "torch._dynamo",
        "torch.distributed.fsdp",
        "trainer.models.language",
        *(["trainer.checkpoint.gcs_store"] if client else []),
        *packages,
    ]
    for name in names:
        # The process that needs a missing or broken package reports it.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    strategy = STRATEGIES[config.parallel.strategy].target.partition(":")[0]
    with contextlib.suppress(Exception):
        preload = getattr(importlib.import_module(strategy), "preload", None)
        if preload is not None:
            preload(config)


def _task_command(argv: Sequence[str]) -> list[str]:
    return [sys.executable, "-u", "-m", "trainer.task", *argv]


_PROGRAMS = {
    "task": _Forked(_preload_task, run_rank_with, _task_command, "trainer.train"),
    "script": _Forked(script_process.preload, script_process.run, script_process.command, "torch"),
}


class Server:
    """Forks on request, and reports how each process ended."""

    def __init__(self, sock: socket.socket, program: _Forked, argv: list[str]) -> None:
        self._stream, self._program, self._argv = MessageStream(sock), program, argv
        self._local_ranks: dict[int, int] = {}
        """By process id."""
        self._wakeup: int
        self._wakeup, wakeup_write = os.pipe()
        os.set_blocking(self._wakeup, False)
        os.set_blocking(wakeup_write, False)
        signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> int:
        """0 after the supervisor has ended; in a forked process its exit code."""
        while not self._stream.closed:
            select.select([self._stream.sock.fileno(), self._wakeup], [], [])
            with contextlib.suppress(BlockingIOError):
                os.read(self._wakeup, _CHUNK)
            self._reap()
            for message in self._stream.receive():
                if "count" in message:
                    self._stream.send(devices=_count_gpus())
                elif "signal" in message:
                    self._signal(int(message["signal"]))
                elif "spawn" in message:
                    for local_rank, environment in enumerate(message["spawn"]):
                        if self._fork(local_rank):
                            return _run_forked(self._program, environment, self._argv)
        self._signal(signal.SIGKILL)
        return 0

    def _fork(self, local_rank: int) -> bool:
        """True in the new process, where signals are blocked until it has handlers."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            die_with_parent(parent)
            signal.set_wakeup_fd(-1)
            for number in (*_SIGNALS, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            self._stream.close()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            return True
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        self._local_ranks[pid] = local_rank
        return False

    def _reap(self) -> None:
        while self._local_ranks:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                return
            # Before the process id is free again: nobody reads from its DataLoader workers now.
            _kill_group(ended.si_pid, signal.SIGKILL)
            _, status = os.waitpid(ended.si_pid, 0)
            local_rank = self._local_ranks.pop(ended.si_pid, None)
            if local_rank is not None:
                code = os.waitstatus_to_exitcode(status)
                self._stream.send(ended=local_rank, code=128 - code if code < 0 else code)

    def _signal(self, number: int) -> None:
        for pid in self._local_ranks:
            if number == signal.SIGKILL:
                _kill_group(pid, number)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def _run_forked(program: _Forked, environment: Mapping[str, str], argv: list[str]) -> int:
    """In a forked process: train."""
    os.environ.update(environment)
    if not _can_fork(program.needed):
        command = program.command(argv)
        os.execv(command[0], command)
    set_process_name(f"train-rank-{environment['RANK']}")
    return program.run(argv)


def _can_fork(needed: str) -> bool:
    """Whether this module is imported and no GPU is open."""
    if sys.modules.get(needed) is None:
        return False
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if str(link.readlink()).startswith("/dev/nvidia"):
                return False
    return True


def _count_gpus() -> int:
    """GPUs that torch sees, counted in another process: counting may open them."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        count = 0
        with contextlib.suppress(Exception):
            import torch

            count = torch.cuda.device_count()
        os.write(write, str(count).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return int(text or 0)


def _kill_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UsageError as error:
        sys.exit(json.dumps(str(error)))
