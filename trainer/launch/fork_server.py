"""The process that forks training processes. The process imports torch once for all attempts.

The fork server starts while the supervisor joins the rendezvous, and ends with the supervisor. The process
computes nothing and opens no GPU: neither threads nor a CUDA context survive a fork. If an import opened a
GPU or failed, each rank starts as a new Python process, which is slower and always works.
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
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from trainer.checkpoint.locations import needs_client, upload_uri
from trainer.config import parse
from trainer.errors import UsageError
from trainer.launch import script_process
from trainer.launch.rank_process import run_rank_with
from trainer.network.addresses import LOOPBACK, listen_on
from trainer.network.messages import MessageStream
from trainer.prctl import die_with_parent, set_process_name
from trainer.registry import STRATEGIES, model_entry
from trainer.structured_log import emit

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_CHUNK = 65536


def main() -> int:
    """Serve until the supervisor ends; a forked process trains. `sys.argv` has a file descriptor and the
    program's `argv`."""
    die_with_parent()
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    sock = socket.socket(fileno=int(sys.argv[1]))
    sock.set_inheritable(False)
    kind, *argv = sys.argv[2:]
    program = _PROGRAMS[kind]
    # Disable the garbage collector during imports, because collections would use a fifth of the time.
    gc.disable()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program.preload(argv)
    gc.freeze()
    gc.enable()
    return ForkServer(sock, program, argv).serve()


@dataclass(frozen=True, slots=True)
class _Forked:
    """A program for the forked processes; each function receives the command-line arguments.

    `preload` imports the modules that a process needs before its first step, but no module that opens a GPU.
    `run` returns the exit code. `command` is for a process that can't be forked because the module `needed`
    is missing. With `alone`, a single process uses torch's store too.
    """

    preload: Callable[[Sequence[str]], None]
    run: Callable[[Sequence[str]], int]
    command: Callable[[Sequence[str]], list[str]]
    needed: str
    alone: bool


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
        *(["trainer.checkpoint.stores.gcs_store"] if client else []),
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
    "task": _Forked(_preload_task, run_rank_with, _task_command, "trainer.train", alone=False),
    "script": _Forked(
        script_process.preload, script_process.run, script_process.command, "torch", alone=True
    ),
}


class ForkServer:
    """Forks a process for each rank on request, and reports the exit code of each."""

    def __init__(self, sock: socket.socket, program: _Forked, argv: list[str]) -> None:
        self._stream, self._program, self._argv = MessageStream(sock), program, argv
        self._local_ranks: dict[int, int] = {}
        """Local ranks by process id."""
        self._store = 0
        """Process id of torch's store; 0 before its start."""
        self._wakeup: int
        self._wakeup, wakeup_write = os.pipe()
        os.set_blocking(self._wakeup, False)
        os.set_blocking(wakeup_write, False)
        signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> int:
        """Serve requests; return 0 after the supervisor ended, or the exit code in a forked process."""
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
                    child = self._spawn(message["spawn"], message["store_address"])
                    if child is not None:
                        return child()
        self._signal(signal.SIGKILL)
        return 0

    def _spawn(
        self, environments: Sequence[Mapping[str, str]], store_address: str | None
    ) -> Callable[[], int] | None:
        """Fork torch's store, if it has an address, and a process for each environment. In a forked process,
        return the function to run there; in this process, None."""
        if self._store:
            _kill_group(self._store, signal.SIGKILL)
        port, alone = int(environments[0]["MASTER_PORT"]), environments[0]["WORLD_SIZE"] == "1"
        if store_address is not None and (self._program.alone or not alone):
            try:
                listener = listen_on(store_address, port)
            except OSError as error:
                text = f"torch's store can't listen on port {port}: {error.strerror or error}"
                emit("phase", text, severity="ERROR", phase="starting")
                for local_rank in range(len(environments)):
                    self._stream.send(ended=local_rank, code=1)
                return None
            if self._fork(None):
                return partial(_host_store, listener)
            listener.close()
        for local_rank, environment in enumerate(environments):
            if self._fork(local_rank):
                return partial(_run_forked, self._program, environment, self._argv)
        return None

    def _fork(self, local_rank: int | None) -> bool:
        """Fork a rank or the store; return True in the child, where signals stay blocked until it has
        handlers."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            die_with_parent(parent)
            signal.set_wakeup_fd(-1)
            # The store must outlive a signal to all processes: the ranks need it for their last save.
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_IGN if local_rank is None else signal.SIG_DFL)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            self._stream.close()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            return True
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        if local_rank is None:
            self._store = pid
        else:
            self._local_ranks[pid] = local_rank
        return False

    def _reap(self) -> None:
        while self._local_ranks:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is None:
                return
            # Before the process id can be reused: nothing reads from its DataLoader workers any more.
            _kill_group(ended.si_pid, signal.SIGKILL)
            _, status = os.waitpid(ended.si_pid, 0)
            local_rank = self._local_ranks.pop(ended.si_pid, None)
            if ended.si_pid == self._store:
                self._store = 0
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
    """Run the program in a forked process; return its exit code."""
    os.environ.update(environment)
    if not _can_fork(program.needed):
        command = program.command(argv)
        os.execv(command[0], command)
    set_process_name(f"train-rank-{environment['RANK']}")
    return program.run(argv)


def _host_store(listener: socket.socket) -> int:
    """Host torch's store on this socket until the process is killed; a single process's store listens on all
    addresses."""
    from torch.distributed import TCPStore

    set_process_name("torch-store")
    address, port = listener.getsockname()[:2]
    local = LOOPBACK if address in {"0.0.0.0", "::"} else address
    store = TCPStore(local, port, None, is_master=True, master_listen_fd=listener.detach())
    while store is not None:
        signal.pause()
    return 0


def _can_fork(needed: str) -> bool:
    """Return whether this module is imported and no GPU is open."""
    if sys.modules.get(needed) is None:
        return False
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if str(link.readlink()).startswith("/dev/nvidia"):
                return False
    return True


def _count_gpus() -> int:
    """Return the number of GPUs that torch sees, counted in another process because counting may open
    them."""
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
