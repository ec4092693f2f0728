"""Print the stacks of the Python processes of this replica as one JSON line.

This program runs in the replica, whose image has neither vxtui nor a certain Python version: it uses only
the standard library.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

SAME = ("VXTUI_REPLICA", "VXTUI_ATTEMPT", "CLUSTER_SPEC", "HOSTNAME")
"""Variables that tell a replica's processes from other processes that are visible from the replica."""
SHELL = "VXTUI_SHELL"
STACKS_SIGNAL = signal.SIGRTMIN + 10
"""Signal with which the trainer's processes write their stacks."""
SECONDS = 10.0


def text_of(path: str) -> str:
    """Return the content of a file, or "" if it can't be read."""
    try:
        return Path(path).read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def variables(pid: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in text_of(f"/proc/{pid}/environ").split("\0"))
    return {name: value for name, _, value in pairs if name}


def pids() -> list[str]:
    """Return the ids of the replica's Python processes, except those of a shell."""
    own = dict(os.environ)
    running = []
    for pid in sorted((path.name for path in Path("/proc").glob("[0-9]*")), key=int):
        program = text_of(f"/proc/{pid}/cmdline").partition("\0")[0].rpartition("/")[2]
        env = variables(pid) if program.startswith("python") and int(pid) != os.getpid() else {}
        if env and SHELL not in env and all(env.get(name) == own.get(name) for name in SAME):
            running.append(pid)
    return running


def py_spy(pid: str, stopped: bool) -> tuple[str, str]:
    """Return the stacks by py-spy, and why there are none."""
    beside = Path(sys.executable).with_name("py-spy")
    program = str(beside) if beside.exists() else shutil.which("py-spy")
    if program is None:
        return "", "py-spy is not in the image: add `pip install py-spy` to see where Python waits."
    # A stopped process need not be paused for the read.
    argv = [program, "dump", "--pid", pid, *(["--nonblocking"] if stopped else [])]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"py-spy failed: {error}"
    if done.returncode:
        return "", f"py-spy can't read the process: {' '.join(done.stderr.split())[-300:]}"
    # The first lines name the process.
    return done.stdout.partition("\n\n")[2].rstrip() or done.stdout, ""


def by_handler(pid: str) -> str:
    """Return the stacks that the trainer's own signal handler writes."""
    try:
        links = [link.resolve() for link in Path(f"/proc/{pid}/fd").iterdir()]
        file = next((link for link in links if link.suffix == ".stacks"), None)
        if file is None:
            return ""
        begin, size, until = file.stat().st_size, -1, time.monotonic() + SECONDS / 2
        os.kill(int(pid), STACKS_SIGNAL)
        while time.monotonic() < until and (size != file.stat().st_size or size == begin):
            size = file.stat().st_size
            time.sleep(0.1)
        return file.read_bytes()[begin:].decode("utf-8", "replace").strip()
    except OSError:
        return ""


def process(pid: str) -> dict[str, str]:
    """Return one process with its stacks, or with the kernel's word for what it waits for."""
    status = dict(line.partition(":\t")[::2] for line in text_of(f"/proc/{pid}/status").splitlines())
    state = status.get("State", "").partition("(")[2].rstrip(")")
    stopped = state in {"stopped", "tracing stop"}
    stacks, problem = py_spy(pid, stopped)
    by = "py-spy" if stacks else ""
    if not stacks and not stopped:
        stacks = by_handler(pid)
        by = "faulthandler" if stacks else ""
    command = " ".join(text_of(f"/proc/{pid}/cmdline").replace("\0", " ").split())
    waits = text_of(f"/proc/{pid}/wchan").strip("0\n")
    return {
        "pid": pid,
        "command": command[:200],
        "state": state,
        "waits_in": waits,
        "by": by,
        "stacks": stacks,
        "problem": "" if stacks else problem,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps([process(pid) for pid in pids()]))
