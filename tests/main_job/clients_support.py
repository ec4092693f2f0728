"""What several tests share with test_clients."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.shell import Home, home
from tests.warm import WarmPopen


@pytest.fixture(scope="module")
def place() -> Iterator[Home]:
    with home() as found:
        started = found.run("emulator", "start", "--rest", "127.0.0.1:0", "--json")
        assert started.returncode == 0, started.stderr
        yield found


def by_the_sdk(place: Home, program: str, given: str = "", ready: Callable[[], str] | None = None) -> str:
    """Run a program of the SDK's user over REST; its arguments are the endpoint, the token and a script.

    `given` is what it reads from its standard input, and then what `ready` returns: that is called when the
    program has printed the line "ready". The SDK prints lines of its own.
    """
    token = (place.state / "token").read_text().strip()
    script = place.root / "train.py"
    script.write_text(TRAINING)
    running = place.json("emulator", "status")
    process = WarmPopen(
        [sys.executable, "-W", "ignore", "-c", program, running["rest"], token, str(script)],
        env={**place.env, "STORAGE_EMULATOR_HOST": running["buckets"]},
        text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdin is not None and process.stdout is not None
        if ready is not None:
            process.stdin.write(given)
            process.stdin.flush()
            given = ready() if any(line == "ready\n" for line in process.stdout) else ""
        printed, errors = process.communicate(given, timeout=240)
    finally:
        if process.poll() is None:
            process.kill()
    assert process.returncode == 0, errors[-3000:]
    return printed


TRAINING = """
import os, sys
model = os.environ["VXTUI_GCS_ROOT"] + os.environ["AIP_MODEL_DIR"].removeprefix("gs:/")
os.makedirs(model, exist_ok=True)
with open(model + "model.txt", "w") as file:
    file.write(" ".join(sys.argv[1:]))
print("the model is written")
"""
