"""The disk that a followed log takes: a short run of what `tests.benchmarks.log_disk` measures."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.log_disk import MOST_BYTES, TICK, WRITER, Kept, delete
from tests.benchmarks.soak import launch, writers
from tests.benchmarks.soak_child import follow
from tests.waiting import until
from tests.wire.control import QUICK
from tests.wire.control import state_dir as server_dir
from tui.emulator.config import EmulatorConfig
from tui.emulator.server import Emulator
from tui.store.log.retention import log_folder

LINES = 16_000
SECONDS = 0.5
LEFT = 2_500_000
"""Bytes that an empty `logs.db` may keep for new entries, with its write-ahead log."""


@contextmanager
def console() -> Iterator[Path]:
    root = Path(tempfile.mkdtemp(prefix="vx"))
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


async def test_a_followed_line_takes_at_most_200_bytes_in_all_places_and_none_once_deleted() -> None:
    config = EmulatorConfig.model_validate({**QUICK, "output_kilobytes": 0})
    with server_dir() as state, console() as root:
        async with Emulator(state, config):
            rate = LINES / SECONDS
            args = map(str, (SECONDS, rate, TICK, 0))
            job = await launch(state, "disk", [writers(1, WRITER, *args)])
            kept = Kept(state, job, log_folder(root, "local", job))
            await follow(state, job, kept.console)
            printed, freed = kept.printed()
            assert printed > 150 * LINES and freed > printed - 600_000
            await until(lambda: kept.total() <= MOST_BYTES * LINES, "the log to be compressed")
            await delete(state, root, job)
            await until(lambda: kept.total() <= LEFT, "the room to be given back")
