"""The lock on a checkpoint folder: who is refused, and who takes it over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tests.trainer.multi_node_support import ROOT
from tests.trainer.ranks import Ranks
from tests.waiting import wait_for
from trainer.checkpoint import folder_lock
from trainer.checkpoint.folder_lock import LOCK, FolderLock, FolderOwner, LaunchHold
from trainer.errors import CheckpointError

OTHER = FolderOwner("run-a", ["launch-a"], "host-a", 7, "another machine", "2026-01-01", "key-a", beat=3)


def taken(lock: FolderLock) -> str | None:
    """The problem of the lock, once it is known."""
    wait_for(lock.poll, "the lock", every=0.01)
    return lock.problem


def write(folder: Path, owner: FolderOwner) -> None:
    """Write in place, as an owner does: a lock that polls never finds an empty file."""
    (folder / LOCK).touch()
    with (folder / LOCK).open("rb+") as file:
        file.write(json.dumps(asdict(owner)).encode())
        file.truncate()


def beating_owner(folder: Path) -> FolderOwner | None:
    """The owner in the file after a second heartbeat; `None` while the file is being written."""
    owner = folder_lock._read(folder / LOCK)
    return owner if owner is not None and owner.beat > 1 else None


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_lock, "_SILENCE", 0.6)
    monkeypatch.setattr(folder_lock, "_FUSE_SILENCE", 0.6)
    monkeypatch.setattr(folder_lock, "_BEING_WRITTEN", 0.6)
    monkeypatch.setattr(folder_lock, "_END_OF_PROCESSES", 0.6)
    monkeypatch.setattr(folder_lock, "HEARTBEAT", 0.05)


def test_an_owner_on_another_machine_that_lives_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine the owner's next sign of life may take longer than the silence of the other tests.
    monkeypatch.setattr(folder_lock, "_SILENCE", 60.0)
    monkeypatch.setattr(folder_lock, "_FUSE_SILENCE", 60.0)
    write(tmp_path, OTHER)
    over = threading.Event()

    def live() -> None:
        beat = OTHER.beat
        while not over.wait(0.02):
            beat += 1
            write(tmp_path, replace(OTHER, beat=beat))

    thread = threading.Thread(target=live)
    thread.start()
    try:
        lock = FolderLock(tmp_path, ["launch-b"])
        problem = taken(lock)
    finally:
        over.set()
        thread.join()
    assert lock.refused and problem is not None
    assert f"--checkpoint-dir {tmp_path} is in use by run run-a (process 7 on host-a, since 2026-" in problem
    lock.release()
    assert json.loads((tmp_path / LOCK).read_text())["run"] == "run-a", "the owner keeps it"


@pytest.mark.parametrize("change", ["silent", "released", "same launch", "damaged"])
def test_an_owner_that_has_ended_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    # A test before this one in the same process may have left the thread of its own lock.
    others = set(threading.enumerate())
    write(tmp_path, replace(OTHER, released=change == "released"))
    if change == "damaged":
        (tmp_path / LOCK).write_text("{")
    lock = FolderLock(tmp_path, ["launch-b", *(["launch-a"] if change == "same launch" else [])])
    # Time that a busy machine takes must not count: the silence lasts until the test ends it.
    for limit in ("_SILENCE", "_FUSE_SILENCE", "_BEING_WRITTEN"):
        monkeypatch.setattr(folder_lock, limit, 600.0)
    assert lock.poll() == (change in {"released", "same launch"}), "others wait for nothing"
    for limit in ("_SILENCE", "_FUSE_SILENCE", "_BEING_WRITTEN"):
        monkeypatch.setattr(folder_lock, limit, 0.0)
    assert taken(lock) is None
    assert (lock.previous is None) == (change == "damaged")
    lock.name_run("run-b")
    owner = wait_for(lambda: beating_owner(tmp_path), "its heartbeat", every=0.02)
    assert owner.run == "run-b"
    lock.check()

    def is_taken() -> bool:
        # A heartbeat that was under way may overwrite the new owner once.
        write(tmp_path, replace(OTHER, key="key-c"))
        return not any(thread.name == "folder lock" for thread in set(threading.enumerate()) - others)

    wait_for(is_taken, "the end of its heartbeat", every=0.02)
    with pytest.raises(CheckpointError, match="was taken by run run-a"):
        lock.check()
    lock.release()


def test_a_process_of_this_machine_keeps_it_until_it_is_killed(tmp_path: Path) -> None:
    hold = (
        "import sys, time; from pathlib import Path; from trainer.checkpoint.folder_lock import FolderLock\n"
        "lock = FolderLock(Path(sys.argv[1]), ['a']); assert lock.poll() and not lock.problem\n"
        "print('held', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": ROOT},
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == b"held\n"
        second = FolderLock(tmp_path, ["b"])
        problem = taken(second)
        assert second.refused and f"process {process.pid} on " in str(problem)
        second.release()
        third = FolderLock(tmp_path, ["b"])
        assert not third.poll(), "the owner may be about to end"
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert taken(third) is None
        third.release()
    finally:
        process.kill()
        process.wait()


def test_a_second_job_in_one_folder_is_refused_and_the_first_one_goes_on(tmp_path: Path) -> None:
    flags = ("--steps=100000", "--checkpoint-every=20", "--batch=4", f"--checkpoint-dir={tmp_path / 'ck'}")
    first = Ranks(tmp_path / "first", 1, *flags, env={"VXTUI_RUN_ID": "run-1"})
    wait_for(lambda: any(line["kind"] == "checkpoint" for line in first.lines()), "a checkpoint", every=0.01)
    second = Ranks(tmp_path / "second", 1, *flags, env={"VXTUI_RUN_ID": "run-2"})
    assert second.wait() == [2], second.errors()
    said = second.lines()[-1]["message"]
    pid, host = first.processes[0].pid, os.uname().nodename
    assert f"is in use by run run-1 (process {pid} on {host}, since " in said
    first.wait_step(max(line["step"] for line in first.lines() if line["kind"] == "step") + 5)
    first.kill()
    # The folder is free as soon as the process is gone.
    third = Ranks(tmp_path / "second", 1, *flags, "--steps=1", env={"VXTUI_RUN_ID": "run-2"})
    assert third.wait() == [0], third.errors()
    assert any(line["kind"] == "resumed" for line in third.lines())


def test_a_launch_keeps_its_folder_between_two_attempts(tmp_path: Path) -> None:
    """Its supervisor lives; its process was killed, or has released the folder after a failed save."""
    supervise = (
        "import sys; from trainer.config import parse\n"
        "from trainer.launch.trainer_program import TrainerProgram\n"
        "from trainer.placement.sources import find_topology\n"
        "program = TrainerProgram(parse(['--checkpoint-dir', sys.argv[1]]), [])\n"
        "program.open(find_topology({})); print('open', flush=True); sys.stdin.readline()\n"
        "program.close()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", supervise, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": ROOT, "VXTUI_RUN_ID": "launch-a"},
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == b"open\n"
        attempt = FolderLock(tmp_path, ["launch-a"])
        assert taken(attempt) is None
        attempt.release()
        other = FolderLock(tmp_path, ["launch-b"])
        problem = taken(other)
        assert other.refused and "is in use by run launch-a" in str(problem)
        other.release()
        second = FolderLock(tmp_path, ["launch-a"])
        assert taken(second) is None, "the next attempt of the same launch"
        second.release()
        process.communicate(b"\n")
        third = FolderLock(tmp_path, ["launch-b"])
        assert third.poll() and not third.refused, "the launch has ended"
        third.release()
        assert [path.name for path in tmp_path.iterdir()] == [LOCK]
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("lives", [True, False])
def test_a_launch_on_another_machine_is_known_by_its_counter(tmp_path: Path, lives: bool) -> None:
    """The process that held the folder is silent; `flock` does not reach that far."""
    write(tmp_path, OTHER)
    hold = LaunchHold(tmp_path, "launch-a")
    wait_for(lambda: any(tmp_path.glob(".launch-*")), "its file", every=0.01)
    if not lives:
        hold.close()
        next(iter(tmp_path.glob(".launch-*")), tmp_path / ".launch-0").write_text("5")
    lock = FolderLock(tmp_path, ["launch-b"])
    problem = taken(lock)
    assert lock.refused == lives and ("run run-a" in str(problem)) == lives
    lock.release()
    hold.close()
