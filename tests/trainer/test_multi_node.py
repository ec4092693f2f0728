"""Two nodes as two supervisors: rendezvous, a lost process, a signal, an exact resume."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from tests.processes import asked, lives
from tests.trainer.multi_node_support import (
    FLAGS,
    ROOT,
    STEPS,
    Cluster,
    cluster,  # noqa: F401 - fixtures
    losses,
    wait_step,
)
from tests.trainer.ranks import Ranks
from tests.trainer.ranks import losses as rank_losses
from tests.waiting import wait_for


def ignores(pid: int, number: signal.Signals) -> bool:
    """Whether the process ignores the signal (proc(5))."""
    status = Path(f"/proc/{pid}/status").read_text()
    (mask,) = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigIgn:")]
    return bool(mask >> (number - 1) & 1)


def test_a_signal_to_one_node_costs_no_step_and_the_resume_is_exact(cluster: Cluster) -> None:
    # Without an interruption: two processes of one node compute what two nodes of one process do.
    whole = Ranks(cluster.root / "whole", 2, *FLAGS)
    assert whole.wait() == [0, 0], whole.errors()

    first = [cluster.start(r, 2, "--warmup=4") for r in (0, 1)]
    wait_step(first[0], 13)
    # A runtime may signal every process of a node; the ranks need the store for their last save.
    family = psutil.Process(first[0].process.pid).children(recursive=True)
    (store,) = [process for process in family if process.name() == "torch-store"]
    assert ignores(store.pid, signal.SIGTERM)
    first[1].process.send_signal(signal.SIGTERM)
    assert [n.process.wait(60) for n in first] == [75, 75]
    left = first[0].lines("preempted")[0]
    assert left["signal"] == "SIGTERM"

    second = [cluster.start(r, 2, "--warmup=4") for r in (0, 1)]
    assert [n.process.wait(120) for n in second] == [0, 0]
    assert second[0].lines("resumed")[0]["step"] == left["step"]
    assert min(losses(second[0])) == left["step"] + 1, "no step is lost, none is done twice"
    # The same program and shapes, and a sum of two has one order: the resume is exact, bit for bit.
    assert losses(first[0], second[0]) == rank_losses(whole.lines())


def test_a_killed_process_is_replaced_and_training_ends_well(cluster: Cluster) -> None:
    # Each node has its own disk: both must resume from a step that both have.
    nodes = [cluster.start(r, 2, "--checkpoint-dir=own", env=cluster.kubeflow(r, 2)) for r in (0, 1)]
    wait_for(lambda: nodes[0].lines("checkpoint"), "the first checkpoint", every=0.02)
    worker = nodes[1].worker()
    assert worker is not None
    worker.kill()
    assert [n.process.wait(150) for n in nodes] == [0, 0]
    assert nodes[0].lines("resumed")[-1]["step"] >= 10
    assert max(losses(nodes[0])) == STEPS
    ended = [json.loads(node.out.with_name("attempt.json").read_text()) for node in nodes]
    assert [(e["node_rank"], e["nodes"], e["exit_code"], e["checkpoint_step"]) for e in ended] == [
        (0, 2, 0, STEPS), (1, 2, 0, STEPS)
    ]  # fmt: skip
    assert ended[0]["attempt"] == ended[1]["attempt"] >= 1


def test_all_processes_end_when_their_supervisor_is_killed(cluster: Cluster) -> None:
    # From a plain shell: no variable says anything.
    node = cluster.start(0, 1, "--steps=100000", "--checkpoint-every=0", "--workers=1", env={})
    wait_step(node, 2)
    family = psutil.Process(node.process.pid).children(recursive=True)
    assert len(family) == 3, "fork server, training process, its reader"
    node.process.kill()
    node.process.wait()

    def left() -> list[psutil.Process]:
        return [p for p in family if lives(p)]

    wait_for(lambda: not left(), "the end of all")


def without_torch(cluster: Cluster) -> dict[str, str]:
    """Variables of a node whose fork server has no torch."""
    early = "import sys; 'trainer.launch.fork_server' in sys.orig_argv and sys.modules.update(torch=None)"
    (cluster.root / "sitecustomize.py").write_text(early)
    return {"PYTHONPATH": f"{cluster.root}:{ROOT}"}


def test_without_a_preloaded_torch_each_process_starts_by_itself(cluster: Cluster) -> None:
    node = cluster.start(0, 1, "--steps=100000", env=without_torch(cluster))
    wait_step(node, 2)
    last = psutil.Process(node.process.pid).children(recursive=True)[-1]
    assert "trainer.task" in last.cmdline()
    node.process.terminate()
    assert node.process.wait(60) == 75


def test_a_node_that_never_joins_is_named(cluster: Cluster) -> None:
    # None of them comes so far as to need torch.
    light = without_torch(cluster)
    node = cluster.start(1, 2, "--join-timeout=3", env=cluster.vertex(1, 2) | light)
    assert node.process.wait(120) == 76
    last = node.out.read_text().splitlines()[-1]
    assert "node 0 was not reached at 127.0.0.1" in last and "within 3 s" in last
    # Kubeflow takes codes below 128 for permanent.
    node = cluster.start(1, 2, "--join-timeout=1", env=cluster.kubeflow(1, 2) | light)
    assert node.process.wait(120) == 204
    assert node.lines("phase")[-1]["outcome"] == 76
    # Node 2 is already asking for node 0 when that begins to wait.
    other = cluster.start(2, 3, "--join-timeout=120", env=cluster.vertex(2, 3) | light)
    wait_for(lambda: other.lines("phase"), "node 2 to wait", every=0.02)
    first = cluster.start(0, 3, "--join-timeout=6", env=cluster.vertex(0, 3) | light)
    assert first.process.wait(120) == 76
    assert "node 1 did not join" in first.out.read_text()


def test_a_signal_before_the_first_checkpoint_promises_none(cluster: Cluster) -> None:
    node = cluster.start(0, 1, "--steps=100000", "--checkpoint-every=0")
    wait_for(lambda: any(x["phase"] == "rendezvous" for x in node.lines("phase")), "the rendezvous")
    time.sleep(0.3)  # into the start of the worker, before it can catch a signal
    node.process.send_signal(signal.SIGTERM)
    code = node.process.wait(60)
    saved = list(cluster.root.glob("ck/step-*/manifest.json"))
    assert code == (75 if saved else 143)


def test_a_process_that_must_be_killed_is_no_success(cluster: Cluster) -> None:
    # The supervisor waits half a minute for the processes to save: here a moment.
    env = without_torch(cluster)
    with (cluster.root / "sitecustomize.py").open("a") as early:
        early.write(
            "\nif 'trainer.task' in sys.orig_argv:\n"
            "    from trainer.supervision import supervisor\n    supervisor.MIN_SHUTDOWN = 0.3\n"
        )
    node = cluster.start(0, 1, "--grace=0", env=env)
    supervisor = psutil.Process(node.process.pid)

    def worker() -> psutil.Process | None:
        family = supervisor.children(recursive=True)
        # Until its exec a child has the command line of the supervisor, which waits for that exec: stopped
        # there, it would stop the supervisor too. Only the worker's own command line has `-u`.
        return next((p for p in family if {"-u", "trainer.task"} <= set(asked(p.cmdline, []))), None)

    wait_for(worker, "the process that trains", every=0.02).suspend()
    node.process.terminate()
    assert node.process.wait(60) == 143, "stopped by a signal, without a checkpoint"


def test_a_signal_between_two_attempts_ends_the_node(cluster: Cluster) -> None:
    # The pause is a random part of up to half a minute: here it is a minute, so that the signal comes within.
    early = "import random; random.uniform = lambda low, high: 60.0"
    (cluster.root / "sitecustomize.py").write_text(early)
    env = {"PYTHONPATH": f"{cluster.root}:{ROOT}"}
    node = cluster.start(0, 1, "--steps=100000", "--checkpoint-every=0", env=env)
    # One that has trained is replaced at once, so this one may not come so far.
    wait_for(node.worker, "the process that trains", every=0.01).kill()
    wait_for(lambda: any(x["phase"] == "restarting" for x in node.lines("phase")), "the pause", every=0.02)
    node.process.send_signal(signal.SIGTERM)
    assert node.process.wait(60) == 143
    assert sum(x["phase"] == "rendezvous" for x in node.lines("phase")) == 1
    assert "Traceback" not in node.out.with_name("err").read_text()


def test_the_training_loop_as_a_command_trains_too(tmp_path: Path) -> None:
    # As `torchrun -m trainer.train` starts each process.
    env = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "PYTHONPATH": ROOT, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "trainer.train", *FLAGS, "--steps=2"], cwd=tmp_path, check=False, timeout=120,
        capture_output=True, text=True, env=os.environ | env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-800:]
    assert "done: 2 steps" in done.stdout.splitlines()[-1]
    # A platform labels each line on stderr an error.
    assert done.stderr == ""
