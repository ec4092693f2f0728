"""The runner with real processes: ends, signals, orphans, restarts, its own death, and no server at all."""

from __future__ import annotations

import json
import os
import resource
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.processes import asked
from tests.waiting import LIMIT, wait_for
from tests.wire.attempts import FOREVER, Attempt, attempt
from tui.config.boot import boot_id
from tui.emulator.runner.plan import AttemptPlan
from tui.emulator.runs.runner_handle import LocalRunner


@pytest.fixture
def one() -> Iterator[Attempt]:
    with attempt() as made:
        yield made


# A grandchild that no process group, session or parent leads to; it takes no notice of SIGTERM.
ORPHAN = """
import os, signal, sys, time
ready, printed = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print('orphan', os.getpid(), flush=True)
        os.write(printed, b'1')
        time.sleep(600)
    os.read(ready, 1)
    os._exit(0)
os.wait()
"""


def test_the_primary_decides_and_the_others_are_told(one: Attempt) -> None:
    worker = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('told', flush=True), sys.exit(7)))\n"
        "print('up', flush=True)\ntime.sleep(600)"
    )
    primary = f"import time, pathlib\np = pathlib.Path({str(one.state.root)!r}) / 'go'\n"
    one.run(primary + "while not p.exists(): time.sleep(0.02)", worker, worker)
    one.said("up", "workerpool1-0")
    one.said("up", "workerpool1-1")
    assert one.status().outcome is None and one.runner.alive(one.home)
    (one.state.root / "go").touch()
    assert one.ended().outcome == "succeeded"
    assert one.codes() == {"workerpool0-0": 0, "workerpool1-0": 7, "workerpool1-1": 7}
    assert one.output("workerpool1-0") == "up\ntold\n" and one.processes() == []


@pytest.mark.parametrize(
    ("code", "recorded"),
    [("raise SystemExit(3)", 3), ("import os; os.abort()", 134),
     ("import os; os.kill(os.getpid(), 11)", 139), ("import os; os.kill(os.getpid(), 9)", 137)],
)  # fmt: skip
def test_a_failure_ends_the_attempt_with_its_code(one: Attempt, code: str, recorded: int) -> None:
    one.run(FOREVER, f"import time; time.sleep(0.2)\n{code}")
    status = one.ended()
    assert (status.outcome, status.failed_replica, status.exit_code) == ("failed", "workerpool1-0", recorded)
    assert one.codes() == {"workerpool0-0": 143, "workerpool1-0": recorded}
    assert not any(r.oom for r in status.replicas) and one.processes() == []
    assert ("workerpool1-0", f"command terminated with exit code {recorded}") in [
        e[1:] for e in status.events
    ]


def test_commands_that_cannot_be_started(one: Attempt) -> None:
    text = one.state.root / "text"
    text.write_text("no program")
    one.run(["no-such-program", "--flag"])
    assert one.ended().exit_code == 128
    assert one.output(stream="stderr") == 'exec: "no-such-program": executable file not found in $PATH\n'
    with attempt() as other:
        other.run([str(text)])
        assert other.ended().exit_code == 128
        assert other.output(stream="stderr") == f'exec: "{text}": permission denied\n'
    with attempt() as third:
        third.run(["/nowhere/program"])
        assert third.ended().exit_code == 128 and "no such file" in third.output(stream="stderr")


def test_a_replica_gets_exactly_its_environment_and_directory(one: Attempt) -> None:
    show = (
        "import json, os, signal\n"
        "defaults = [signal.getsignal(n) == signal.SIG_DFL for n in (signal.SIGHUP, signal.SIGTERM)]\n"
        "masked = list(signal.pthread_sigmask(signal.SIG_BLOCK, []))\n"
        "leads = os.getsid(0) == os.getpid()\n"
        "print(json.dumps([dict(os.environ), os.getcwd(), leads, defaults, masked]))"
    )
    os.environ["SECRET_OF_THE_SERVER"] = "x"
    try:
        one.run(show)
    finally:
        del os.environ["SECRET_OF_THE_SERVER"]
    assert one.ended().outcome == "succeeded"
    env, directory, leads, defaults, masked = json.loads(one.output())
    env.pop("LC_CTYPE", None)  # Python's own doing where no locale is set.
    assert env == {
        "PATH": "/usr/bin:/bin", "NAME": "workerpool0-0",
        "VXTUI_REPLICA": "workerpool0-0", "VXTUI_ATTEMPT": str(one.home.root),
    }  # fmt: skip
    assert directory == str(one.home.workdir("workerpool0-0")) and leads
    assert defaults == [True, True] and masked == []


def test_stop_ends_every_descendant_within_the_grace(one: Attempt) -> None:
    one.run(ORPHAN + "time.sleep(600)", ORPHAN + "time.sleep(600)")
    one.said("orphan")
    one.said("orphan", "workerpool1-0")
    assert len(one.processes()) == 6
    began = time.monotonic()
    one.command(do="stop", reason="cancel")
    status = one.ended()
    assert status.outcome == "stopped" and one.processes() == []
    assert time.monotonic() - began >= 1.0, "the grace"


def test_what_a_replica_leaves_behind_ends_with_it(one: Attempt) -> None:
    one.run(FOREVER, ORPHAN)
    one.said("orphan", "workerpool1-0")
    wait_for(lambda: one.codes()["workerpool1-0"] == 0, "the worker to end")
    wait_for(lambda: len(one.processes()) == 3, "its orphan to be gone")
    assert one.status().outcome is None


def test_a_shell_in_front_does_not_keep_the_notice_from_the_trainer(one: Attempt) -> None:
    trainer = one.state.root / "trainer.py"
    trainer.write_text(
        "import signal, sys, time\n"
        "save = lambda *_: (time.sleep(0.5), print('saved', flush=True), sys.exit(75))\n"
        f"signal.signal(signal.SIGTERM, save)\n{FOREVER}"
    )
    one.run(["/bin/sh", "-c", f"true; {sys.executable} {trainer}; true"], grace=20.0)
    one.said("up")
    one.command(do="preempt", replicas=[])
    status = one.ended()
    assert status.outcome == "preempted" and "saved" in one.output()


def test_a_preemption_takes_the_named_ones_first(one: Attempt) -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + FOREVER
    last = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('told', time.time(), flush=True), sys.exit(1)))\n"
        + FOREVER
    )
    one.run(last, stubborn)
    one.said("up")
    one.said("up", "workerpool1-0")
    began = time.time()
    one.command(do="preempt", replicas=["workerpool1-0"])
    status = one.ended()
    assert status.outcome == "preempted" and status.detail == "Reclaimed: workerpool1-0"
    assert one.codes() == {"workerpool0-0": 1, "workerpool1-0": 137}
    assert float(one.output().split()[-1]) >= began + 1.0, "the others are told when the machine is gone"


def test_a_job_that_ends_well_during_the_notice_has_succeeded(one: Attempt) -> None:
    done = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n" + FOREVER
    one.run(done, FOREVER)
    one.said("up")
    one.said("up", "workerpool1-0")
    one.command(do="preempt", replicas=["workerpool0-0"])
    assert one.ended().outcome == "succeeded" and one.processes() == []


def test_a_cancel_does_not_wait_for_the_grace_of_a_preemption(one: Attempt) -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + FOREVER
    one.run(stubborn, stubborn, grace=300.0, stop_grace=0.2)
    one.said("up")
    one.said("up", "workerpool1-0")
    one.command(do="preempt", replicas=["workerpool1-0"])
    wait_for(lambda: one.status().events, "the preemption to begin")
    one.command(do="stop", reason="cancel")
    assert one.ended().outcome == "stopped" and one.processes() == []


def test_a_timeout(one: Attempt) -> None:
    one.run(FOREVER, timeout=0.5)
    assert one.ended().outcome == "timeout" and one.processes() == []


def test_sigterm_to_the_runner_means_that_the_machine_goes_down(one: Attempt) -> None:
    one.run(FOREVER)
    one.said("up")
    one.keeper().send_signal(signal.SIGHUP)
    one.keeper().terminate()
    assert one.ended().outcome == "preempted" and one.processes() == []


def count_starts(name: str, then: str) -> str:
    """Code that notes each start in the working directory, then runs `then` with `n`, the start's number."""
    return (
        f"import pathlib, os, sys, time\np = pathlib.Path({name!r})\n"
        "n = p.stat().st_size + 1 if p.exists() else 1\n"
        f"p.open('a').write('x')\nprint('start', n, flush=True)\n{then}"
    )


def test_a_temporary_exit_starts_the_worker_again_in_place(one: Attempt) -> None:
    # What the first run left behind is gone before the second begins.
    code = count_starts(
        "n", "if n == 1: exec(orphan); os._exit(75)\nif n == 2: os.kill(os.getpid(), 15)\nsys.exit(4)"
    )
    one.run(FOREVER, f"orphan = {ORPHAN!r}\n{code}")
    status = one.ended()
    assert status.outcome == "failed" and status.exit_code == 4
    worker = next(r for r in status.replicas if r.id == "workerpool1-0")
    assert worker.restarts == 2 and one.processes() == []
    assert [line.split()[0] for line in one.output("workerpool1-0").splitlines()].count("start") == 3
    assert sum("restarts on the same machine" in text for _, _, text in status.events) == 2


def test_a_worker_is_started_again_only_so_often(one: Attempt) -> None:
    one.run(FOREVER, count_starts("n", "sys.exit(75)"), worker_restarts=3)
    status = one.ended()
    assert (status.outcome, status.exit_code) == ("failed", 75)
    assert one.output("workerpool1-0").count("start") == 4


def test_a_replica_restarts_after_the_delay(one: Attempt) -> None:
    code = "print(time.monotonic(), flush=True)\nsys.exit(75) if n == 1 else sys.exit(0)"
    one.run(count_starts("n", code), restart_delay=0.4)
    assert one.ended().outcome == "succeeded"
    _, first, _, second = one.output().splitlines()
    assert float(second) - float(first) >= 0.4


def test_one_restart_can_mean_all(one: Attempt) -> None:
    # The worker leaves only when the primary's first start has been noted.
    up = f"pathlib.Path({str(one.state.root / 'up')!r})"
    primary = f"{up}.touch()\nif n == 1: time.sleep(600)"
    worker = f"while not {up}.exists(): time.sleep(0.02)\nsys.exit(75) if n == 1 else time.sleep(600)"
    one.run(count_starts("n", primary), count_starts("n", worker), restart_job_on_worker_restart=True)
    assert one.ended().outcome == "succeeded"
    assert one.output() == "start 1\nstart 2\n"
    assert one.output("workerpool1-0").startswith("start 1\n")


def test_a_runner_killed_with_its_parent_is_lost_and_takes_its_processes_along(one: Attempt) -> None:
    one.run(ORPHAN + "time.sleep(600)")
    one.said("orphan")
    assert len(one.processes()) == 4
    one.kill()
    status = wait_for(lambda: s if (s := one.status()).outcome else None, "the loss to be seen")
    assert status.outcome == "lost" and [r.state for r in status.replicas] == ["exited"]
    assert one.processes() == []
    assert LocalRunner().status(one.home).outcome == "lost", "another server sees the same"


def test_a_runner_needs_no_server(one: Attempt) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom tui.emulator.paths import AttemptDir\n"
        "from tui.emulator.runner.plan import AttemptPlan\n"
        "from tui.emulator.runs.runner_handle import LocalRunner\n"
        "home = AttemptDir(Path(sys.argv[1])); LocalRunner().start(home, AttemptPlan.load(home.root / 'p'))"
    )
    one.home.root.mkdir(parents=True)
    code = "import time\nfor i in range(20): print(i, flush=True); time.sleep(0.05)\nraise SystemExit(5)"
    plan = AttemptPlan("1", 1, (one.replica(0, [sys.executable, "-c", code]),))
    plan.save(one.home.root / "p")
    subprocess.run([sys.executable, "-c", script, str(one.home.root)], check=True, timeout=LIMIT)
    status = one.ended()
    assert (status.outcome, status.exit_code) == ("failed", 5)
    assert one.output() == "".join(f"{i}\n" for i in range(20))


@pytest.mark.parametrize("jump", [0, 600, -600])
def test_an_adopted_attempt_counts_as_running_until_its_runner_has_spoken(
    one: Attempt, monkeypatch: pytest.MonkeyPatch, jump: int
) -> None:
    one.home.root.mkdir(parents=True)
    replicas = (one.replica(0, ["true"]),)
    started = AttemptPlan("1", 1, replicas, started_at=time.monotonic(), boot=boot_id())
    started.save(one.home.plan)
    if jump:
        os.utime(one.home.plan, (time.time() - jump, time.time() - jump))
    status = one.status()
    assert status.outcome is None and [r.state for r in status.replicas] == ["starting"]
    real = time.monotonic
    with monkeypatch.context() as later:
        later.setattr(time, "monotonic", lambda: real() + 11)
        assert one.status().outcome == "lost"
    replace(started, boot="another").save(one.home.plan)
    assert one.status().outcome == "lost"


def test_a_runner_that_cannot_begin_is_lost_with_its_last_words(one: Attempt) -> None:
    one.run(FOREVER)
    one.said("up")
    one.runner.start(one.home, AttemptPlan.load(one.home.plan))
    log = one.home.runner_log
    wait_for(lambda: "has, or had, a different runner" in log.read_text(), "the second runner to be refused")
    # The second runner may become a zombie at any moment.
    assert len([p for p in one.processes() if "-c" in asked(p.cmdline, [])]) == 1


def test_nonsense_commands_are_ignored(one: Attempt) -> None:
    one.run(FOREVER)
    one.said("up")
    with one.home.commands.open("ab") as file:
        file.write(b'nonsense\n[1]\n{"do": "dance"}\n{"do": "preempt", "replicas": 3}\n{"do": "stop"')
    with one.home.commands.open("ab") as file:
        file.write(b', "reason": "cancel"}\n')
    assert one.ended().outcome == "stopped"


def stamps(one: Attempt, replica: str = "workerpool0-0", stream: str = "stdout") -> list[tuple[int, int]]:
    data = one.home.stamps(replica, stream).read_bytes()
    assert len(data) % 16 == 0
    return list(struct.iter_unpack("<qq", data))


def test_stamps_cover_all_output_and_never_go_back(one: Attempt) -> None:
    # Each line is written when the one before it has been stamped.
    code = (
        "import pathlib, sys, time\n"
        f"stamps = pathlib.Path({str(one.home.stamps('workerpool0-0', 'stdout'))!r})\n"
        "for i in range(10):\n"
        "    while i and not (stamps.exists() and stamps.stat().st_size >= 16 * i): time.sleep(0.01)\n"
        "    print(i, time.time_ns(), flush=True)\n"
        "sys.stderr.write('end'); sys.stderr.flush()"
    )
    one.run(code, FOREVER)
    assert one.ended().outcome == "succeeded"
    found = stamps(one)
    assert found == sorted(found) and len({size for size, _ in found}) == len(found) == 10
    assert found[-1][0] == one.home.output("workerpool0-0", "stdout").stat().st_size
    assert stamps(one, stream="stderr")[-1][0] == 3
    offset = 0
    for line in one.output().splitlines(keepends=True):
        offset += len(line)
        # The time of a line is the first stamp that covers it: no earlier than it was written.
        assert next(at for size, at in found if size >= offset) >= int(line.split()[1])


def test_a_full_disk_costs_no_process_and_no_exit_code(one: Attempt) -> None:
    # A limit on file sizes fails the record's writes as a full disk does, and can be lifted from outside.
    go = one.state.root / "go"
    wait = f"import pathlib, time\np = pathlib.Path({str(go)!r})\nwhile not p.exists(): time.sleep(0.02)\n"
    one.run(f"print('up', flush=True)\n{wait}raise SystemExit(6)")
    one.said("up")
    keeper = one.keeper()
    keeper.rlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    go.touch()
    wait_for(lambda: len(one.processes()) == 2, "the replica to end")
    time.sleep(0.5)  # The runner looks at least twice in this time.
    assert keeper.is_running() and one.status().outcome is None
    keeper.rlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    status = one.ended()
    assert (status.outcome, status.exit_code) == ("failed", 6)
    assert stamps(one)[-1][0] == 3


def test_a_short_temporary_directory_that_goes_with_the_attempt(one: Attempt) -> None:
    link = one.state.root / "t" / "short"
    code = "import os, tempfile; print(tempfile.mkdtemp(), os.environ['TMPDIR'], flush=True)"
    replica = one.replica(0, [sys.executable, "-c", code], {"TMPDIR": str(link)})
    one.runner.start(one.home, AttemptPlan("1", 1, (replica,)))
    assert one.ended().outcome == "succeeded"
    made, told = one.output().split()
    assert told == str(link) and made.startswith(f"{link}/")
    assert not link.is_symlink() and len(list((one.home.workdir("workerpool0-0") / "tmp").iterdir())) == 1
