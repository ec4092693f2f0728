"""The file viewer on one file, in a process of its own: `python -m tests.benchmarks.odd_files_child PATH`.

Times are CPU of the screen's thread in ms: what else the machine does is not in them.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from time import thread_time

from tests.benchmarks.harness import memory_of
from tests.waiting import until
from tests.wire.hostile_screen import press
from tui.config.settings import Settings
from tui.file_viewer import FileViewer
from tui.store.job.file_feed import FileFeed

KEYS = (
    "g", "j", *("pagedown",) * 4, "w", "j", "k", "pagedown", "G", "k", "pageup", "w", "J", "g", "pagedown",
    "pagedown", "G", "J", "pageup", "l", "l", "h", "slash", "l", "o", "s", "enter", "n", "n", "e", "space",
    "y", "escape", "G", "t", "R", "enter", "pagedown", "escape", "w", "pageup", "n",
)  # fmt: skip
SIZE = (80, 24)


class Stalls:
    """The longest CPU time between two turns of the event loop, in seconds."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def watch(self) -> None:
        while True:
            began = thread_time()
            await asyncio.sleep(0.001)
            self.longest = max(self.longest, thread_time() - began)


def whole(feed: FileFeed) -> bool:
    """Whether all of it has been copied and counted."""
    return feed._input is None and feed.buffer._size == os.fstat(feed.buffer._fd).st_size


async def main(path: Path) -> None:
    feed = FileFeed(path)
    app = FileViewer(feed, Settings())
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        stalls = Stalls()
        watching = asyncio.create_task(stalls.watch())
        began = time.perf_counter()
        await until(lambda: whole(feed), "the whole file")
        ready = time.perf_counter() - began
        keys = [(await press(app, key), key) for key in KEYS if app.is_running]
        slowest, name = max(keys)
        watching.cancel()
        memory = memory_of(field="VmHWM")
    said = {"key": slowest, "ready": ready, "stall": stalls.longest}
    print(json.dumps({key: value * 1e3 for key, value in said.items()} | {"name": name, "memory": memory}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
