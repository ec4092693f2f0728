"""One rank per node prepares the data, however long it takes; all ranks learn of a problem."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.processes import asked
from tests.trainer.ranks import Ranks
from tests.waiting import LIMIT, wait_for
from trainer import exit_codes, registry
from trainer.config import Config, parse
from trainer.data import once_per_node
from trainer.data.data_cache import DataProgress
from trainer.data.once_per_node import prepare_data
from trainer.data.token_cache import token_file_of
from trainer.distributed.wait import StoppedBySignal
from trainer.errors import DataError, UsageError

NODES, PER_NODE = 2, 2


class Group:
    """A rank among threads; `rounds` counts the collective calls."""

    def __init__(self, rank: int, barrier: threading.Barrier, values: list[Any]) -> None:
        self.rank, self.local_rank, self.node_rank = rank, rank % PER_NODE, rank // PER_NODE
        self.rounds = 0
        self._barrier, self._values = barrier, values

    def all_gather(self, value: Any) -> list[Any]:
        self.rounds += 1
        self._values[self.rank] = value
        self._barrier.wait(LIMIT)
        found = list(self._values)
        self._barrier.wait(LIMIT)
        return found


def prepared_by(
    monkeypatch: pytest.MonkeyPatch,
    prepare: Callable[[Config, DataProgress], str],
    received: Callable[[int], int] = lambda _: 0,
) -> tuple[list[Any], list[Group]]:
    """What `prepare_data` returns or raises on each rank; `received` is the signal of a rank."""
    monkeypatch.setattr(once_per_node, "resolve", lambda _: prepare)
    monkeypatch.setitem(registry.MODELS, "m", registry.ModelEntry("m:m", prepare="m:prepare"))
    world = NODES * PER_NODE
    barrier, values, found = threading.Barrier(world), [None] * world, [None] * world
    groups = [Group(rank, barrier, values) for rank in range(world)]

    def run(rank: int) -> None:
        try:
            config = prepare_data(
                parse(["--model=m", "--data=given"]), groups[rank], lambda: received(rank)  # type: ignore[arg-type]
            )  # fmt: skip
            found[rank] = config.data.data  # type: ignore[call-overload]
        except (DataError, StoppedBySignal) as error:
            found[rank] = error  # type: ignore[call-overload]

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found, groups


def test_the_ranks_meet_while_a_node_prepares(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(once_per_node, "_REPORT_EVERY", 0.05)
    monkeypatch.setattr(once_per_node, "_EXCHANGE_EVERY", 0.05)
    prepared: list[int] = []

    def prepare(config: Config, progress: DataProgress) -> str:
        slow = not prepared
        prepared.append(1)
        progress.begin(f"--data {config.data.data}", 4_000_000)
        for _ in range(4 if slow else 0):
            time.sleep(0.06)
            progress.read(1_000_000)
        return "slow" if slow else "fast"

    found, groups = prepared_by(monkeypatch, prepare)
    assert len(prepared) == NODES and sorted(found) == ["fast"] * PER_NODE + ["slow"] * PER_NODE
    assert found[0] == found[1] and found[2] == found[3]
    assert {group.rounds for group in groups} == {5}, "four while the slow node reads, one at the end"
    said = capfd.readouterr().out
    assert "--data given: 3 of 4 MB read" in said


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (DataError("a.txt:3: it is not text"), "a.txt:3: it is not text"),
        (UsageError("--weights x: nothing there"), "--weights x: nothing there"),
        (ModuleNotFoundError(name="tokenizers"), "--model m needs the package tokenizers"),
    ],
)
def test_a_problem_of_one_node_ends_all_ranks(
    monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    calls: list[int] = []

    def prepare(config: Config, progress: DataProgress) -> str:
        calls.append(1)
        if len(calls) == 1:
            raise error
        return "fine"

    found, _ = prepared_by(monkeypatch, prepare)
    assert [str(each) for each in found] == [said] * NODES * PER_NODE
    assert all(isinstance(each, DataError) for each in found)


@pytest.mark.parametrize("signalled", [0, 3])
def test_a_signal_to_any_rank_ends_the_preparation_on_all(
    monkeypatch: pytest.MonkeyPatch, signalled: int
) -> None:
    """Rank 0 prepares, rank 3 waits."""
    monkeypatch.setattr(once_per_node, "_EXCHANGE_EVERY", 0.05)
    begun = threading.Event()

    def prepare(_: Config, progress: DataProgress) -> str:
        while True:
            progress.read(1)
            begun.set()
            time.sleep(0.001)

    def received(rank: int) -> int:
        return signal.SIGTERM if begun.is_set() and rank == signalled else 0

    found, _ = prepared_by(monkeypatch, prepare, received)
    assert all(isinstance(each, StoppedBySignal) and each.number == signal.SIGTERM for each in found)


def test_a_signal_while_another_process_writes_the_data_ends_the_run(tmp_path: Path) -> None:
    text, cache = tmp_path / "text.txt", f"--data-cache={tmp_path / 'cache'}"
    text.write_text("one step after another\n" * 50)
    waits, go_on = threading.Event(), threading.Event()

    class Holding(DataProgress):
        def read(self, count: int) -> None:
            waits.set()
            go_on.wait()

    held = (parse([f"--data={text}", cache]), "bytes", Holding())
    writer = threading.Thread(target=token_file_of, args=held)
    writer.start()
    waits.wait()
    ranks = Ranks(tmp_path / "run", 2, f"--data={text}", cache)
    try:
        wait_for(lambda: _waits_for_a_lock(ranks), "the wait for the other process")
        ranks.signal(signal.SIGTERM, 1)
        assert ranks.wait() == [exit_codes.STOPPED] * 2
    finally:
        go_on.set()
        writer.join()
        ranks.kill()
    assert [line["kind"] for line in ranks.lines()][-1] == "preempted"


def _waits_for_a_lock(ranks: Ranks) -> bool:
    """Whether rank 0 has opened the lock of a file in the cache."""
    opened = asked(psutil.Process(ranks.processes[0].pid).open_files, [])
    return any(file.path.endswith(".lock") and "cache" in file.path for file in opened)


def test_a_model_without_files_is_left_alone() -> None:
    registry_free = parse(["--model=toy", "--data=x"])
    assert prepare_data(registry_free, Group(0, threading.Barrier(1), [None])) is registry_free  # type: ignore[arg-type]
