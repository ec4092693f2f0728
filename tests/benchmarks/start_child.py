"""The console, measured from inside: `python -m tests.benchmarks.start_child (paint|live) FILE [OPTIONS]`.

`paint` writes what the process has taken when the first paint is out, `live` when the context has been open
for a while, with the longest time that the event loop was late by meanwhile. It goes on until it is killed.
"""

from __future__ import annotations

import gc

gc.disable()

import json  # noqa: E402
import os  # noqa: E402
import resource  # noqa: E402
import sys  # noqa: E402

BEAT = 0.005
"""Seconds between two looks at the clock."""
LINGER = 2.0
"""Seconds to go on looking once the context is open: its clients start late threads of their own."""


def _write(path: str, **more: float) -> None:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    with open("/proc/self/status", encoding="utf-8") as file:  # noqa: PTH123
        rss = next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmRSS"))
    with open(f"{path}.new", "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump({"cpu": usage.ru_utime + usage.ru_stime, "rss": rss, **more}, file)
    os.rename(f"{path}.new", path)  # noqa: PTH104


def main() -> None:
    """Run the console as `vxtui` does, with one method of it watched."""
    what, path, *options = sys.argv[1:]
    from tui.app import VxtuiApp

    connect = VxtuiApp.connect

    def painted(self: VxtuiApp) -> None:
        # Its bytes go out in a thread: give it its turn before the count.
        self.set_timer(0.05, lambda: _write(path))

    async def beat(self: VxtuiApp) -> None:
        import asyncio
        import time

        late, until = 0.0, None
        while until is None or time.monotonic() < until:
            began = time.monotonic()
            await asyncio.sleep(BEAT)
            late = max(late, time.monotonic() - began - BEAT)
            if until is None and self.live:
                until = time.monotonic() + LINGER
        _write(path, late=late)

    def opened(self: VxtuiApp) -> None:
        from functools import partial

        self.run_worker(partial(beat, self), name="beat", group="beat")
        connect(self)

    VxtuiApp.connect = painted if what == "paint" else opened  # type: ignore[method-assign]
    sys.argv[1:] = options
    from tui.cli import main as console

    console()


if __name__ == "__main__":
    main()
