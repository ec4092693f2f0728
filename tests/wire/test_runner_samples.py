"""What the runner measures, against known loads."""

from __future__ import annotations

import math
import os
import socket
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import asked
from tests.waiting import wait_for
from tests.wire.attempts import FOREVER, Attempt, attempt
from tui.domain.core import metric
from tui.emulator.runner import host, network_usage, process_tree, sampler
from tui.emulator.runner.database import Sample, read_samples
from tui.emulator.runner.plan import ReplicaPlan


@pytest.fixture
def one() -> Iterator[Attempt]:
    with attempt() as made:
        yield made


def values(samples: list[Sample], replica: str, name: str) -> list[float]:
    return [value for _, who, what, _, value in samples if (who, what) == (replica, name)]


def test_the_names_are_the_domain_s() -> None:
    assert {
        sampler.CPU,
        sampler.MEMORY,
        sampler.GPU,
        sampler.GPU_MEMORY,
        sampler.NET_IN,
        sampler.NET_OUT,
    } == set(metric.TRAINING_METRICS)


def test_cpu_of_a_busy_and_of_an_idle_replica(one: Attempt) -> None:
    # The load comes from children that live shorter than a sample's period.
    loop = [sys.executable, "-S", "-c", "for _ in range(400000): pass"]
    busy = f"import subprocess\nwhile True: subprocess.run({loop})"
    one.run(busy, FOREVER, sample_period=0.5)
    wait_for(lambda: len(values(read_samples(one.home), "workerpool1-0", metric.CPU)) >= 6, "samples")
    found = read_samples(one.home)
    load = statistics.mean(values(found, "workerpool0-0", metric.CPU))
    rest = statistics.median(values(found, "workerpool1-0", metric.CPU))
    keeper = one.keeper().pid
    # The busy one's children come and go while they are looked at.
    spent = [
        asked(p.cpu_times, None)
        for p in one.processes()
        if asked(p.ppid, 0) == keeper and "-S" not in asked(p.cmdline, ["-S"])
    ]
    true = max(t.user + t.system + t.children_user + t.children_system for t in spent if t is not None)
    began = min(asked(p.create_time, math.inf) for p in one.processes())
    truth = true / (time.time() - began) / host.cpus()
    assert rest < 0.05 and load == pytest.approx(truth, rel=0.5) and load > 5 * rest
    assert found == sorted(found, key=lambda s: s[0]) and read_samples(one.home, found[-1][0]) == []


def test_memory_counts_shared_pages_once(one: Attempt) -> None:
    size = 200 * 1024 * 1024
    code = (
        "import mmap, os, time\n"
        f"shared = mmap.mmap(-1, {size}); shared.write(b'x' * {size})\n"
        f"own = b'y' * {size}\n"
        "for _ in range(3):\n"
        "    if os.fork() == 0: memoryview(shared)[::4096].tobytes(); time.sleep(600)\n"
        "print('up', flush=True); time.sleep(600)"
    )
    one.run(code)
    one.said("up")

    def settled() -> float:
        found = values(read_samples(one.home), "workerpool0-0", metric.MEMORY)
        return (
            found[-1] * host.memory_bytes() if found and found[-1] * host.memory_bytes() > 4 * size else 0.0
        )

    # Each child touches the shared pages, without a copy, and has a copy-on-write view of its parent's own.
    held = wait_for(settled, "the children to hold their memory")
    assert 4 * size < held < 6.5 * size


TRAFFIC = """
import os, pathlib, socket, sys, time
name, port, go = os.environ["NAME"], int(sys.argv[1]), pathlib.Path(sys.argv[2])
if name == "workerpool0-0":
    listener = socket.create_server(("127.0.0.1", port))
    peer, _ = listener.accept()
    got = 0
    while data := peer.recv(1 << 16):
        got += len(data)
        if got == 10_000_000: break
    peer.sendall(b"x" * 1000)
else:
    while True:
        try: peer = socket.create_connection(("127.0.0.1", port)); break
        except OSError: time.sleep(0.02)
    peer.sendall(b"x" * 10_000_000)
    peer.recv(1000)
print("moved", flush=True)
while not go.exists(): time.sleep(0.02)  # A look at the socket after the last byte …
peer.close()
print("done", flush=True)
time.sleep(600)  # … and looks after its end.
"""


def test_network_bytes_are_each_replica_s_own(one: Attempt) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    go = one.state.root / "go"
    python = [sys.executable, "-c", TRAFFIC, port, str(go)]
    one.run(python, python)

    def looks() -> int:
        return len(values(read_samples(one.home), "workerpool1-0", metric.NET_IN))

    for word in ("moved", "done"):
        one.said(word)
        one.said(word, "workerpool1-0")
        count = looks()
        wait_for(lambda count=count: looks() >= count + 2, "two more looks")  # type: ignore[misc]
        go.touch()
    found = read_samples(one.home)
    for replica, received, sent in (("workerpool0-0", 10_000_000, 1000), ("workerpool1-0", 1000, 10_000_000)):
        into, out = values(found, replica, metric.NET_IN), values(found, replica, metric.NET_OUT)
        assert into == sorted(into) and out == sorted(out), (
            "counters never fall, not even when a socket closes"
        )
        assert into[-1] == pytest.approx(received, abs=2) and out[-1] == pytest.approx(sent, abs=2)


def test_no_figure_is_better_than_a_wrong_one(one: Attempt) -> None:
    go = one.state.root / "go"
    one.run(f"import pathlib, time\nwhile not pathlib.Path({str(go)!r}).exists(): time.sleep(0.02)", FOREVER)
    wait_for(lambda: read_samples(one.home), "samples")
    go.touch()
    assert one.ended().outcome == "succeeded"
    found = read_samples(one.home)
    assert found and not any(name.startswith("accelerator/") for _, _, name, _, _ in found)
    assert all(0 <= value <= 1 for _, _, name, _, value in found if name.endswith("utilization"))


def test_figures_that_the_kernel_refuses_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> dict[int, network_usage.SocketBytes]:
        raise PermissionError(1, "socket diagnostics refused")

    monkeypatch.setattr(network_usage, "sockets", refuse)
    me = process_tree.read(os.getpid())
    assert me is not None
    meter = sampler.ReplicaSampler({"r": ReplicaPlan("r", ("x",), {}, "/")})
    names = [name for _, _, name, _, _ in meter.sample({"r": [me]}) + meter.sample({"r": [me]})]
    assert metric.MEMORY in names and metric.CPU in names
    assert metric.NET_IN not in names and metric.NET_OUT not in names


def test_a_meter_keeps_what_closed_sockets_moved() -> None:
    meter, counters = network_usage.NetworkMeter(), network_usage.SocketBytes
    assert meter.update({5: counters(1, 10, 20)}, {5}) == (10, 20)
    # The inode is used again by another socket, which has a cookie of its own.
    assert meter.update({5: counters(2, 1, 1), 6: counters(3, 100, 100)}, {5}) == (11, 21)
    assert meter.update({}, set()) == (11, 21)


def test_the_runner_stays_small(one: Attempt) -> None:
    one.run(FOREVER, FOREVER)
    one.said("up")
    wait_for(lambda: read_samples(one.home), "samples")
    keeper = one.keeper()
    assert keeper.memory_info().rss < 40 * 1024 * 1024
    mapped = Path(f"/proc/{keeper.pid}/maps").read_text()
    assert not any(name in mapped for name in ("grpc", "protobuf", "torch"))
