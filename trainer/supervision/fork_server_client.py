"""The supervisor's side of the fork server."""

from __future__ import annotations

import contextlib
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from trainer.network.messages import MessageStream


class ForkServerClient:
    """Starts, signals and watches this node's processes, by local rank."""

    def __init__(self, argv: Sequence[str]) -> None:
        """`argv` is `task` with the run's flags, or `script` with its command line."""
        self._argv = list(argv)
        self._process: subprocess.Popen[bytes] | None = None
        self._stream: MessageStream
        self._gpus: int | None = None
        self._requested = False
        self._running: set[int] = set()
        self.start()

    def start(self) -> None:
        """Start the fork server unless it runs; it imports the processes' modules in the background."""
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
        """Return the number of GPUs of this node, or None if it is unknown after `wait` seconds. Raises
        RuntimeError if the fork server ended."""
        if self._gpus is None:
            self.start()
            if not self._requested:
                self._stream.send(count=True)
                self._requested = True
            self._poll(wait)
            if self._stream.closed:
                raise RuntimeError("the fork server, which imports torch, ended before the training started")
        return self._gpus

    def spawn(self, environments: Sequence[Mapping[str, str]], store_address: str | None = None) -> None:
        """Start a process for each environment, with the run's arguments. With a `store_address` ("" for all
        addresses), another process hosts torch's store there, at the port in the environments."""
        self.start()
        self._running = set(range(len(environments)))
        self._stream.send(spawn=list(environments), store_address=store_address)

    def ended(self, wait: float) -> list[tuple[int, int]]:
        """Return the local ranks that ended within `wait` seconds, with their exit codes: 128 + n for signal
        n."""
        ended = [(message["ended"], message["code"]) for message in self._poll(wait) if "ended" in message]
        if self._stream.closed:
            # The kernel kills the forked processes of an ended fork server.
            ended += [(rank, 128 + signal.SIGKILL) for rank in self._running - {rank for rank, _ in ended}]
        self._running -= {rank for rank, _ in ended}
        return ended

    def signal(self, number: int) -> None:
        """Send a signal to all running processes; SIGKILL also to their children."""
        self._stream.send(signal=number)

    def close(self) -> None:
        """End the fork server and all running processes."""
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
