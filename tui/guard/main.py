"""The program of the guard: `python -m tui.guard.main`, which `vxtui guard start` runs."""

from __future__ import annotations

import asyncio
import logging
import signal
import sqlite3
import sys
from collections.abc import Callable

from tui.backends.factory import open_backend
from tui.config.guard_settings import guard_settings
from tui.config.loader import load_settings
from tui.config.paths import state_dir
from tui.config.settings import Context, SettingsError, choose_context, members_of
from tui.guard.process import GuardError, guard_lock, record_file
from tui.guard.record import GuardRecord
from tui.guard.service import GuardService
from tui.session import now


def main() -> int:
    """Watch until SIGTERM. Return the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        with guard_lock(state_dir()) as ready:
            asyncio.run(_run(ready))
    except (GuardError, SettingsError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - the log of the guard
        return 1
    except sqlite3.Error as error:
        print(f"The record {record_file(state_dir())} can't be read or written: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


async def _run(ready: Callable[[], None]) -> None:
    settings = load_settings()
    guard = guard_settings(settings)
    chosen = [choose_context(settings, name) for name in guard.contexts] or [choose_context(settings)]
    contexts: list[Context] = []
    for context in chosen:
        contexts += members_of(settings, context) if context.kind == "group" else [context]
    record = GuardRecord(record_file(state_dir()))
    record.set_fact("settings", guard.digest)
    try:
        backends = {context.name: (context, open_backend(context, settings)) for context in contexts}
        watching = asyncio.create_task(GuardService(settings, backends, record, state_dir(), now).run())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, watching.cancel)
        ready()
        await asyncio.wait({watching})
        if not watching.cancelled():
            watching.result()
    finally:
        record.close()


if __name__ == "__main__":
    sys.exit(main())
