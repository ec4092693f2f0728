"""Full garbage collections wait for a moment without keys."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from tui.garbage import FEW, LAST_RESORT, MANY, QUIET, IdleCollector


@pytest.fixture(autouse=True)
def own_collections() -> Iterator[None]:
    """No collection but those of the test, and of its own objects alone; afterwards all is as before."""
    # What the other tests have loaded would be looked through with each collection.
    gc.freeze()
    gc.collect()
    thresholds = gc.get_threshold()
    # A young generation that no test fills.
    gc.set_threshold(1_000_000, 10, 10)
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def middle_collections(count: int) -> None:
    """As many as a console makes in some seconds to minutes."""
    for _ in range(count):
        gc.collect(1)


def test_a_key_that_is_handled_is_not_stopped() -> None:
    collector = IdleCollector(lambda: 0.0)
    collector.start()
    assert collector.started
    middle_collections(MANY)
    assert not collector.turn() and gc.get_count()[2] >= MANY


@pytest.mark.parametrize(
    ("middle", "quiet", "collects"),
    [(FEW - 1, 60.0, False), (FEW, QUIET / 2, False), (FEW, QUIET, True), (MANY, QUIET / 2, True)],
)
def test_a_collection_waits_for_quiet_but_not_for_ever(middle: int, quiet: float, collects: bool) -> None:
    collector = IdleCollector(lambda: quiet)
    collector.start()
    middle_collections(middle)
    assert collector.turn() is collects
    assert (gc.get_count()[2] == 0) is collects


def test_nothing_is_collected_again_without_new_objects() -> None:
    collector = IdleCollector(lambda: 60.0)
    collector.start()
    kept: list[list[int]] = [[] for _ in range(10_000)]
    middle_collections(FEW)
    assert collector.turn()
    middle_collections(FEW)
    assert not collector.turn()
    kept += [[] for _ in range(100_000)]
    middle_collections(FEW)
    assert collector.turn()


def test_python_collects_by_itself_before_and_after() -> None:
    before = gc.get_threshold()
    collector = IdleCollector(lambda: 60.0)
    assert not collector.turn()
    collector.start()
    assert gc.get_threshold() == (*before[:2], LAST_RESORT)
    collector.start()
    collector.stop()
    assert gc.get_threshold() == before and not collector.started
    collector.stop()
    assert not collector.turn()
