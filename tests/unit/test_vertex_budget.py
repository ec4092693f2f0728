"""One budget for all processes of a machine: never more reads or tails than the project has."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.waiting import LIMIT
from tui.backends.vertex.transport import budget as module
from tui.backends.vertex.transport.budget import Budget, budget_of

HOLD = """
import sys, time
from pathlib import Path
from tui.backends.vertex.transport.budget import Budget
lease = Budget(Path(sys.argv[1]), 5).lease()
print("held" if lease else "none", flush=True)
time.sleep(600)
"""


async def test_reads_are_shared_by_all_who_name_the_folder(tmp_path: Path) -> None:
    first, second = Budget(tmp_path / "p", 4), Budget(tmp_path / "p", 4)
    waits = [await one._reserve() for one in (first, second) * 4]
    assert waits[:4] == [0.0] * 4
    assert all(30 < wait <= 60 for wait in waits[4:])
    assert await second._reserve() > 90
    assert await Budget(tmp_path / "q", 4)._reserve() == 0.0


def _reserve_many(folder: Path, out: multiprocessing.Queue[tuple[float, float]]) -> None:
    import asyncio

    async def work() -> None:
        mine = Budget(folder, 50)
        for _ in range(100):
            before = time.monotonic()
            wait = await mine._reserve()
            out.put((before + wait, time.monotonic() + wait))

    asyncio.run(work())


def test_processes_that_ask_at_once_never_get_more_than_the_limit(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    out: multiprocessing.Queue[tuple[float, float]] = context.Queue()
    workers = [context.Process(target=_reserve_many, args=(tmp_path / "p", out)) for _ in range(3)]
    for worker in workers:
        worker.start()
    granted = [out.get(timeout=LIMIT) for _ in range(300)]
    for worker in workers:
        worker.join(LIMIT)
    # Each was granted at some time between the two that its process noted.
    first, last = (sorted(times) for times in zip(*granted, strict=True))
    for at, later in zip(first, last[50:], strict=False):
        assert later - at >= 60.0 - 0.1


async def test_what_another_boot_left_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Budget(tmp_path / "p", 1)
    assert [await one._reserve() > 0 for _ in range(3)] == [False, True, True]
    monkeypatch.setattr(module, "boot_id", lambda: "another")
    assert await one._reserve() == 0.0


@pytest.mark.parametrize("jump", [600, -600])
@pytest.mark.parametrize("system", ["names its starts", "does not"])
async def test_reads_are_counted_on_when_the_time_of_day_jumps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: int, system: str
) -> None:
    if system == "does not":
        monkeypatch.setattr(module, "boot_id", str)
    one = Budget(tmp_path / "p", 1)
    assert await one._reserve() == 0.0
    then = time.time() + jump
    monkeypatch.setattr(module.time, "time", lambda: then)
    assert 0 < await one._reserve() <= 60


async def test_without_a_name_of_the_boot_times_far_ahead_are_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "boot_id", str)
    one, real = Budget(tmp_path / "p", 1), time.monotonic
    monkeypatch.setattr(module.time, "monotonic", lambda: real() + 10_000)
    assert await one._reserve() == 0.0
    monkeypatch.setattr(module.time, "monotonic", real)
    assert await one._reserve() == 0.0


async def test_a_torn_file_is_begun_again(tmp_path: Path) -> None:
    one = Budget(tmp_path / "p", 3)
    await one._reserve()
    (tmp_path / "p" / "reads-3").write_bytes(b"\xff" * 11)
    assert [await one._reserve() for _ in range(3)] == [0.0] * 3
    assert await one._reserve() > 59


def test_a_tail_is_given_back_when_it_is_released(tmp_path: Path) -> None:
    one, other = Budget(tmp_path / "p", 5, tails=2), Budget(tmp_path / "p", 5, tails=2)
    first, second = one.lease(), other.lease()
    assert first is not None and second is not None
    assert one.lease() is None and other.lease() is None
    first.release()
    first.release()
    assert other.lease() is not None
    assert one.lease() is None


def test_a_tail_is_given_back_when_its_process_is_killed(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "p")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        one = Budget(tmp_path / "p", 5, tails=1)
        assert one.lease() is None
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait(60)
        assert one.lease() is not None
    finally:
        holder.kill()
        holder.wait(60)
        assert holder.stdout is not None
        holder.stdout.close()


async def test_where_the_folder_can_not_be_used_the_limit_holds_for_the_process(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    one = Budget(tmp_path / "file" / "p", 2)
    assert one.lease() is not None
    assert [await one._reserve() > 0 for _ in range(3)] == [False, False, True]


def test_one_object_for_all_who_ask_in_a_process() -> None:
    assert budget_of(None, "host", "p", 54) is budget_of(None, "host", "p", 54)
    assert budget_of(None, "host", "p", 54) is not budget_of(None, "host", "q", 54)
