"""The process that training processes are forked from: it has loaded torch once, an attempt costs no import.

It starts while the supervisor meets the other nodes, and lives as long as that does. It computes nothing and
never touches a GPU, since neither threads nor a CUDA context survive a fork; where loading opened one all
the same, or failed, each process starts afresh as `python -m trainer.task`, which is slower and always works.
"""

from __future__ import annotations

import contextlib
import ctypes
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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trainer.config import Config, UsageError, parse
from trainer.wire import Line

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_CHUNK = 65536


class ForkServer:
    """The supervisor's side of it: starts, signals and watches this node's processes, by local rank."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = list(argv)
        self._process: subprocess.Popen[bytes] | None = None
        self._line: Line
        self._devices: int | None = None
        self._asked = False
        self._alive: set[int] = set()
        self.start()

    def start(self) -> None:
        """Have it running; it loads what the processes need meanwhile."""
        if self._process is not None and self._process.poll() is None and not self._line.closed:
            return
        self.close()
        self._asked = False
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-u", "-m", "trainer.fork_server", str(theirs.fileno()), *self._argv]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        self._line = Line(ours)

    def devices(self, wait: float) -> int | None:
        """GPUs of this node; None where that is not known within `wait` seconds.

        Raises:
            RuntimeError: when the process that should count them has ended.
        """
        if self._devices is None:
            self.start()
            if not self._asked:
                self._line.send(count=True)
                self._asked = True
            self._poll(wait)
            if self._line.closed:
                raise RuntimeError("the process that loads torch ended before the others could start")
        return self._devices

    def spawn(self, environments: Sequence[Mapping[str, str]], flags: Sequence[str]) -> None:
        """A process for each environment, with these flags after the run's own."""
        self.start()
        self._alive = set(range(len(environments)))
        self._line.send(spawn=list(environments), flags=list(flags))

    def ended(self, wait: float) -> list[tuple[int, int]]:
        """Local ranks that have ended within `wait` seconds, with their exit codes: 128 + n for signal n."""
        found = [(word["ended"], word["code"]) for word in self._poll(wait) if "ended" in word]
        if self._line.closed:
            # The kernel ends what was forked from it.
            found += [(rank, 128 + signal.SIGKILL) for rank in self._alive - {r for r, _ in found}]
        self._alive -= {rank for rank, _ in found}
        return found

    def signal(self, number: int) -> None:
        """To all processes that still run; SIGKILL also to the ones that they have started."""
        self._line.send(signal=number)

    def close(self) -> None:
        """End it, and with it whatever still runs."""
        if self._process is not None:
            self._line.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(2)
            self._process.kill()
            self._process.wait()

    def _poll(self, wait: float) -> list[dict[str, Any]]:
        if not self._line.closed:
            select.select([self._line.sock], [], [], wait)
        words = self._line.receive()
        for word in words:
            self._devices = word.get("devices", self._devices)
        return words


def main() -> int:
    """Serve until the supervisor leaves; in a forked process: train. `sys.argv`: a descriptor, the flags."""
    die_with_parent()
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    sock = socket.socket(fileno=int(sys.argv[1]))
    sock.set_inheritable(False)
    argv = sys.argv[2:]
    # What is loaded stays: looking for garbage in it would take a fifth of the time.
    gc.disable()
    _load(parse(argv))
    gc.freeze()
    gc.enable()
    return Server(sock, argv).serve()


def _load(config: Config) -> None:
    """All that a training process imports before its first step, and nothing that opens a GPU."""
    warnings.filterwarnings("ignore")
    names = ["trainer.train", "torch._dynamo", "torch.distributed.fsdp", "trainer.models.language"]
    if config.model.model != "gpt":
        names.append("transformers")
    for name in names:
        # Whatever is missing or broken is told by the process that needs it.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    if config.parallel.strategy.startswith("zero"):
        with contextlib.suppress(Exception):
            _load_deepspeed(config)


def _load_deepspeed(config: Config) -> None:
    """Where no GPU can be used: its import asks NVML for them and keeps that open, which `_can_fork` would
    have to refuse. The third of a second that this saves is less than what a fresh start costs.
    """
    import torch

    # A build of torch that knows GPUs may find one, whatever the flags leave open.
    if config.parallel.device == "cpu" or not torch.backends.cuda.is_built():
        from trainer.strategy.deepspeed import load_deepspeed

        load_deepspeed(torch.device("cpu"))


class Server:
    """Forks on request, and tells how each process ended."""

    def __init__(self, sock: socket.socket, argv: list[str]) -> None:
        self._line, self._argv = Line(sock), argv
        self._ranks: dict[int, int] = {}
        """Process id to local rank."""
        self._woken: int
        self._woken, wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> int:
        """0 once the supervisor has gone; in a forked process what its training ended with."""
        while not self._line.closed:
            select.select([self._line.sock.fileno(), self._woken], [], [])
            with contextlib.suppress(BlockingIOError):
                os.read(self._woken, _CHUNK)
            self._reap()
            for word in self._line.receive():
                if "count" in word:
                    self._line.send(devices=_count_devices())
                elif "signal" in word:
                    self._signal(int(word["signal"]))
                elif "spawn" in word:
                    for local, environment in enumerate(word["spawn"]):
                        if self._fork(local):
                            return _become(environment, [*self._argv, *word["flags"]])
        self._signal(signal.SIGKILL)
        return 0

    def _fork(self, local: int) -> bool:
        """True in the new process, whose signals wait until it has handlers of its own."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            die_with_parent(parent)
            signal.set_wakeup_fd(-1)
            for number in (*_SIGNALS, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            os.setsid()
            self._line.close()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            return True
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        self._ranks[pid] = local
        return False

    def _reap(self) -> None:
        while self._ranks:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is None:
                return
            # Before its number is free again: those that read data for it have lost their reader.
            _kill_group(found.si_pid, signal.SIGKILL)
            _, status = os.waitpid(found.si_pid, 0)
            local = self._ranks.pop(found.si_pid, None)
            if local is not None:
                code = os.waitstatus_to_exitcode(status)
                self._line.send(ended=local, code=128 - code if code < 0 else code)

    def _signal(self, number: int) -> None:
        for pid in self._ranks:
            if number == signal.SIGKILL:
                _kill_group(pid, number)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def _become(environment: Mapping[str, str], argv: list[str]) -> int:
    """A forked process turns into a training process."""
    os.environ.update(environment)
    if not _can_fork():
        os.execv(sys.executable, [sys.executable, "-u", "-m", "trainer.task", *argv])
    name = f"train-rank-{environment['RANK']}".encode()
    ctypes.CDLL(None).prctl(_PR_SET_NAME, ctypes.c_char_p(name), 0, 0, 0)
    sys.argv = ["trainer.task", *argv]
    from trainer.task import main as train

    return train()


def _can_fork() -> bool:
    """Whether torch is there and no GPU has been opened."""
    if sys.modules.get("trainer.train") is None:
        return False
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if str(link.readlink()).startswith("/dev/nvidia"):
                return False
    return True


def _count_devices() -> int:
    """GPUs that torch sees, counted in a process of its own: counting may open them."""
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
        found = answer.read()
    os.waitpid(pid, 0)
    return int(found or 0)


def _kill_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def die_with_parent(parent: int = 0) -> None:
    """Nobody may go on when the process above has died; `parent` tells whether it already has."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if parent and os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UsageError as wrong:
        sys.exit(json.dumps(str(wrong)))
