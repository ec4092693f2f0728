"""A shell in a running replica by keys alone, in a real pty at 80×24 and 120×40."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import termios
from collections.abc import Iterator

import psutil
import pyte
import pytest

from tests.processes import asked
from tests.shell import VXTUI, Home, home
from tests.terminal import Terminal
from tests.waiting import wait_for

# Its consoles and its job are started once.
pytestmark = pytest.mark.xdist_group("shell by keys")

PROFILE = """
displayName: two-nodes
jobSpec:
  workerPoolSpecs:
    - machineSpec: {machineType: n1-standard-4}
      replicaCount: 1
      containerSpec: &task
        imageUri: python:3.11
        command: [python, -c, "import time\\nprint('ready', flush=True)\\ntime.sleep(3600)"]
        env: [{name: SECRET_TOKEN, value: hunter2-hunter2}]
    - machineSpec: {machineType: n1-standard-4}
      replicaCount: 1
      containerSpec: *task
"""


@pytest.fixture(scope="module")
def place() -> Iterator[Home]:
    """A home whose emulator runs a job of two nodes."""
    with home() as found:
        folder = found.root / "c" / "vxtui" / "profiles"
        folder.mkdir(parents=True)
        (folder / "two-nodes.yaml").write_text(PROFILE)
        launch(found)
        yield found


def launch(place: Home) -> str:
    """A job of two nodes that runs; its id."""
    made = place.json("launch", "two-nodes", "--yes")
    wait_for(lambda: place.count("RUNNING"), "the job to run")
    return str(made["id"])


@pytest.fixture(scope="module", params=[(80, 24), (120, 40)], ids=["80x24", "120x40"])
def screen(request: pytest.FixtureRequest, place: Home) -> Iterator[Terminal]:
    """The console at the Replicas tab, with the cursor on the second node; its tests come back there."""
    columns, rows = request.param
    found = Terminal([VXTUI], place.env | {"SHELL": "/bin/bash"}, columns, rows)
    try:
        found.wait("two-nodes")
        found.press("enter")
        found.wait("Overview")
        found.press("]")
        found.wait("workerpool1-0")
        found.press("G")
        yield found
    finally:
        found.close()


def running(place: Home) -> str:
    """The id of the job that runs, or of a new one where the last has ended."""
    wait_for(lambda: not place.count("CANCELLING"), "the end of the last job")
    found = [job["id"] for job in place.jobs() if job["state"] == "RUNNING"]
    return str(found[0]) if found else launch(place)


def settled(text: str) -> list[str]:
    """The screen without what changes by itself: figures, ages and bars, and the toast of the end."""
    lines = [line[:18].rstrip() for line in text.splitlines() if re.match(r" {2,}(▾ )? *workerpool", line)]
    return [*lines, text.splitlines()[1][:50]]


def shells_of(place: Home) -> list[psutil.Process]:
    return [p for p in place.processes() if "VXTUI_SHELL" in environment(p)]


def names(place: Home) -> list[str]:
    return [asked(each.name, "") for each in shells_of(place)]


def environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}


def prompt_of_the_shell(text: str) -> bool:
    _, said, after = text.partition("A shell in workerpool1-0 of two-nodes")
    return bool(said) and ("$" in after or "#" in after)


def open_shell(screen: Terminal) -> str:
    """Open a shell; the screen before it."""
    before = screen.text
    screen.press("x")
    screen.wait(lambda text: ("A shell in workerpool1-0 of two-nodes" in text and "$" in text) or "#" in text)
    return before


def test_a_shell_has_the_replicas_environment_and_the_screen_comes_back(
    place: Home, screen: Terminal
) -> None:
    before = open_shell(screen)
    screen.press('echo "$CLUSTER_SPEC" | head -c 66; echo; echo "at=$PWD"; echo "n=$SECRET_TOKEN"', "enter")
    text = screen.wait("n=hunter2-hunter2").replace("\n", "")
    assert '"cluster": {"workerpool0": ["127.0.0.1:' in text
    assert "workerpool1-0.work" in text
    # Ctrl+C is the program's, in the shell as elsewhere.
    screen.press("sleep 1000; echo interrupted=$?", "enter")
    wait_for(lambda: "sleep" in names(place), "the sleep")
    screen.type(b"\x03")
    screen.press("echo again=$?", "enter")
    screen.wait("again=130")
    screen.press("exit", "enter")
    screen.wait("The shell in workerpool1-0 of two-nodes ended")
    screen.wait(lambda text: settled(text) == settled(before))
    wait_for(lambda: not shells_of(place), "the end of all that the shell started")
    # The cursor is where it was: the same key opens the same replica again.
    screen.press("enter")
    screen.wait("ready")
    screen.press("[")
    screen.wait("REPLICA")


def test_a_killed_shell_leaves_the_terminal_as_it_was(place: Home, screen: Terminal) -> None:
    before = open_shell(screen)
    # As an editor that is killed does: the other screen, the mouse, no echo, no cursor, insert mode, line
    # drawing, and half of a title.
    modes = r"\033[?1049h\033[?1000h\033[?25l\033[31m\033[4h\033(0\016\033]0;half"
    screen.press(f"printf '{modes}'; stty raw -echo; kill -9 $$", "enter")
    screen.wait("ended with exit code 137")
    screen.wait(lambda text: settled(text) == settled(before))
    assert pyte.modes.IRM not in screen.screen.mode
    # The emulator behind this terminal has no character sets; others do.
    after = bytes(screen.raw).rpartition(b"\x1b]0;half")[2]
    assert after.startswith(b"\x1b\\") and b"\x0f\x1b(B" in after


def test_a_shell_has_the_terminals_size_and_follows_it(place: Home, screen: Terminal) -> None:
    columns, rows = screen.screen.columns, screen.screen.lines
    open_shell(screen)
    screen.press("stty size", "enter")
    screen.wait(f"{rows} {columns}")
    screen.resize(columns - 10, rows - 4)
    # A key may overtake the new size.
    screen.press(f"until stty size | grep '{rows - 4} {columns - 10}'; do sleep 0.1; done", "enter")
    screen.wait(f"\n{rows - 4} {columns - 10}\n")
    screen.press("exit", "enter")
    screen.wait(lambda text: "REPLICA" in text and "help" in text.split("\n")[-1])
    screen.resize(columns, rows)
    screen.wait("REPLICA")


def test_the_stacks_on_the_screen(screen: Terminal) -> None:
    screen.press(":stacks", "enter")
    screen.wait("Stacks of two-nodes")
    screen.press("esc")
    screen.wait(lambda text: "Stacks of" not in text and "REPLICA" in text)


def test_a_lost_connection_leaves_nothing_of_a_shell(place: Home, screen: Terminal) -> None:
    """The last test of this console, which ends: it is told by a signal, or finds its terminal closed."""
    open_shell(screen)
    screen.press("setsid nohup sleep 1234 > /dev/null 2>&1 &", "enter")
    screen.press("sleep 2345", "enter")
    wait_for(lambda: names(place).count("sleep") == 2, "two programs")
    screen.hang_up()
    if screen.screen.columns == 80:
        screen.process.send_signal(signal.SIGHUP)
    screen.process.wait(60)
    wait_for(lambda: not shells_of(place), "the end of all that the shell started")
    # The replica goes on.
    assert place.count("RUNNING") == 1


def test_a_shell_ends_with_its_replica(place: Home) -> None:
    screen = Terminal([VXTUI], place.env | {"SHELL": "/bin/bash"}, 80, 24)
    try:
        screen.wait(lambda text: "two-nodes" in text and "live" in text)
        # In the list of jobs it asks for the replica.
        screen.press("x")
        screen.wait("A shell in which replica")
        screen.press("pool1")
        screen.press("enter")
        screen.wait(prompt_of_the_shell)
        screen.press("cat", "enter")
        place.run("cancel", "two-nodes", "--yes", "--no-wait")
        screen.wait("workerpool1-0 has ended, and so has its shell")
        screen.wait("two-nodes")
        screen.press("ctrl+q")
        assert screen.wait_exit() == 0
        assert echoes(screen)
    finally:
        screen.close()


def test_the_journal_names_the_replica_and_no_command(place: Home) -> None:
    job = running(place)
    command = ("--", "sh", "-c", "echo hunter3; exit 4")
    ran = place.run("shell", job, "--json", "--replica", "workerpool1-0", *command)
    done = json.loads(ran.stdout)
    assert ran.returncode == 4
    assert (done["replica"], done["exit_code"], done["stdout"]) == ("workerpool1-0", 4, "hunter3\n")
    lines = [json.loads(line) for line in (place.root / "s" / "audit.jsonl").read_text().splitlines()]
    shells = [line for line in lines if line["action"] == "job.shell"]
    assert {(line["surface"], line["result"]) for line in shells} >= {("verb", "asked"), ("verb", "done")}
    assert all(re.search(r"customJobs/\d+ workerpool\d-0$", line["target"]) for line in shells)
    assert "hunter" not in json.dumps(lines)


def test_a_verb_passes_on_input_and_output(place: Home) -> None:
    running(place)
    done = subprocess.run(
        [VXTUI, "shell", "two-nodes", "--", "sh", "-c", "cat; echo $RANK >&2; exit 7"],
        env=place.env, input="from a pipe", capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (7, "from a pipe", "0\n")
    refused = place.run("shell", "two-nodes", "--read-only")
    assert refused.returncode == 2 and "Opening a shell is refused" in refused.stderr
    lacking = place.run("tensorboard", "two-nodes", "--no-browser")
    assert lacking.returncode == 1 and "baseOutputDirectory" in lacking.stderr
    unknown = place.run("shell", "two-nodes", "--replica", "workerpool7-0")
    assert unknown.returncode == 3 and "only workerpool0-0, workerpool1-0" in unknown.stderr


def test_the_stacks_of_each_replica(place: Home) -> None:
    running(place)
    read = place.json("stacks", "two-nodes")["replicas"]
    assert [each["replica"] for each in read] == ["workerpool0-0", "workerpool1-0"]
    for (process,) in (each["processes"] for each in read):
        assert process["state"] == "sleeping" and "time.sleep(3600)" in process["command"]
        assert "py-spy" in process["by"] + process["problem"]
    told = place.run("stacks", "two-nodes", "--replica", "workerpool1-0")
    head, *stacks = told.stdout.splitlines()
    assert told.returncode == 0 and re.match(r"workerpool1-0  process \d+, sleeping.*sleep\(3600\)$", head)
    assert stacks and all(line.startswith("  ") for line in stacks)
    refused = place.run("stacks", "two-nodes", "--read-only")
    assert refused.returncode == 2 and "is refused" in refused.stderr


def echoes(screen: Terminal) -> bool:
    """The terminal shows what is typed, and makes lines of it, as a shell needs it."""
    return bool(screen.modes()[3] & termios.ECHO and screen.modes()[3] & termios.ICANON)
