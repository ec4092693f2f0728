"""What holds for every test."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from _pytest.assertion import rewrite
from hypothesis import HealthCheck, settings

# A profile's bodies are those of the registered kinds; the console's own modules import the registry.
import tui.kinds.registry  # noqa: F401
from tests.processes import asked, end, running_in

# A property holds or not; how long an example takes depends on what else the machine does. So no example has
# a deadline, and the generation of examples is not timed either. The suite's own timeout ends what hangs.
_LIMITS: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# The same examples on every machine; `make search` looks for others.
settings.register_profile("vxtui", derandomize=True, **_LIMITS)
settings.register_profile("search", **_LIMITS)
settings.load_profile("vxtui")

_SERVICES = ("multiprocessing", "wandb-core")
"""Servers of a test process, which end with it. Their environment is that of the test that came first."""


# A shell starts its background jobs with SIGINT ignored, which their children inherit; tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Rewrite the asserts of all tests before the workers start, each of which would rewrite them all."""
    if (
        not config.getoption("numprocesses", None)
        or hasattr(config, "workerinput")
        or sys.dont_write_bytecode
    ):
        return
    files = {
        path: rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"
        for path in Path(__file__).parent.rglob("test_*.py")
    }
    stale = [path for path, written in files.items() if rewrite._read_pyc(path, written) is None]
    child = os.fork()
    try:
        for path in stale[::2] if child else stale[1::2]:
            # A worker reports a file that can't be compiled.
            with suppress(SyntaxError, ValueError, OSError):
                status, code = rewrite._rewrite_test(path, config)
                files[path].parent.mkdir(exist_ok=True)
                rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, status, files[path])
    finally:
        if not child:
            os._exit(0)
    os.waitpid(child, 0)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Modules and tests stay to the end: the collections of garbage need not look through them."""
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Look for exceptions that nobody caught once, not five times: a worker has a million objects."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_left_running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An emulator or a replica that a test leaves behind is named, and ended."""
    yield
    place = str(tmp_path_factory.getbasetemp())
    found = {process: " ".join(asked(process.cmdline, [])) for process in running_in(place)}
    ours = [process for process, command in found.items() if not any(name in command for name in _SERVICES)]
    # What was told to end may still be about to.
    _, left = psutil.wait_procs(ours, timeout=30)
    end(left)
    assert not left, f"left running below {place}: {[found[process] for process in left]}"
