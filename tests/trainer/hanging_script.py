"""A DDP script that hangs in one of many ways; the line that a report must name ends with `# KIND`."""

import argparse
import ctypes
import datetime
import fcntl
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from trainer import report

LONG = 100_000


def in_lock() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()  # lock


def in_loop() -> None:
    number = 0
    while number >= 0:  # loop
        number += 1  # loop


def in_native_code() -> None:
    """Hang with the GIL held, in a mutex that this thread already holds."""
    mutex = ctypes.create_string_buffer(64)
    ctypes.PyDLL(None).pthread_mutex_lock(mutex)
    ctypes.PyDLL(None).pthread_mutex_lock(mutex)  # native


def stopped() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)  # stopped


def in_socket() -> None:
    ours, _theirs = socket.socketpair()
    ours.recv(1)  # socket


def in_subprocess() -> None:
    subprocess.run(["sleep", str(LONG)], check=True)  # subprocess


def in_file_lock() -> None:
    with Path("locked").open("w") as first, Path("locked").open("w") as second:
        fcntl.flock(first, fcntl.LOCK_EX)
        fcntl.flock(second, fcntl.LOCK_EX)  # flock


def in_queue() -> None:
    queue.Queue[int]().get()  # queue


def in_store() -> None:
    dist.distributed_c10d._get_default_store().wait(["nobody sets it"])  # store


def in_thread_join() -> None:
    thread = threading.Thread(target=time.sleep, args=(LONG,), daemon=True)
    thread.start()
    thread.join()  # join


def in_receive() -> None:
    dist.recv(torch.zeros(1), src=0)  # receive


def with_another_shape() -> None:
    dist.all_reduce(torch.zeros(2))  # shape


def with_another_kind() -> None:
    dist.broadcast(torch.zeros(3), src=1)  # kind


def with_one_more() -> None:
    dist.all_reduce(torch.zeros(11))  # extra


ON_ONE_RANK: dict[str, Callable[[], None]] = {
    "lock": in_lock, "loop": in_loop, "native": in_native_code, "stopped": stopped, "socket": in_socket,
    "subprocess": in_subprocess, "flock": in_file_lock, "queue": in_queue, "store": in_store,
    "join": in_thread_join, "receive": in_receive, "extra": with_one_more,
}  # fmt: skip
INSTEAD: dict[str, Callable[[], None]] = {"shape": with_another_shape, "kind": with_another_kind}
"""Replaces the reduction of the loss."""


class Samples(Dataset[torch.Tensor]):
    """Random rows, of which one never arrives."""

    def __init__(self, missing: int) -> None:
        self.missing = missing

    def __len__(self) -> int:
        return 10_000

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.missing:
            time.sleep(LONG)  # sample worker
        return torch.randn(8)


class Slow(torch.autograd.Function):
    """A layer whose gradient never arrives."""

    @staticmethod
    def forward(context: object, value: torch.Tensor) -> torch.Tensor:
        return value.clone()

    @staticmethod
    def backward(context: object, gradient: torch.Tensor) -> torch.Tensor:
        time.sleep(LONG)  # backward
        return gradient


def save(kind: str, here: bool) -> None:
    """Let rank 0 write while the others wait."""
    if kind == "save" and here:
        os.mkfifo("checkpoint")
        Path("checkpoint").write_text("weights")  # save
    dist.barrier()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind")
    parser.add_argument("--rank", type=int, default=1, help="which rank hangs")
    parser.add_argument("--at", type=int, default=12, help="in which step")
    parser.add_argument("--silent", action="store_true", help="report no steps")
    given = parser.parse_args()
    kind = given.kind
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60 if kind == "start" else 1800))
    rank = dist.get_rank()
    here = rank == given.rank
    groups = [dist.new_group(), dist.new_group()]
    model = DistributedDataParallel(torch.nn.Linear(8, 4))
    if kind == "start" and here:
        time.sleep(LONG)  # start
    loader = DataLoader(
        Samples(given.at if kind in {"sample", "worker"} and here else -1), batch_size=1,
        num_workers=1 if kind == "worker" else 0,
    )  # fmt: skip
    for step, batch in enumerate(loader):
        hangs = here and step == given.at
        if kind == "early" and here and step == given.at:
            break
        if hangs and kind in ON_ONE_RANK:
            ON_ONE_RANK[kind]()
        output = model(batch)
        if hangs and kind == "backward":
            output = Slow.apply(output)
        output.sum().backward()
        if hangs and kind in INSTEAD:
            INSTEAD[kind]()
        elif not (hangs and kind == "skipped"):
            dist.all_reduce(torch.zeros(3))
        first, second = reversed(groups) if hangs and kind == "order" else groups
        dist.all_reduce(torch.zeros(1), group=first)  # skipped order
        dist.all_reduce(torch.zeros(1), group=second)
        if step == given.at:
            save(kind, here)
        if not given.silent:
            report.step(step + 1, LONG)
        time.sleep(0.02)
    if here:
        time.sleep(LONG)  # early


if __name__ == "__main__":
    sys.exit(main())
