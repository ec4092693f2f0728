"""`python -m trainer.launch script.py`: start and end of a script that knows nothing of this project."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.processes import lives
from tests.trainer.multi_node_support import ROOT, Cluster, Node
from tests.trainer.own_script_support import entries
from tests.waiting import wait_for
from trainer import report
from trainer.errors import UsageError
from trainer.launch import script

SCRIPT = str(Path(ROOT) / "tests" / "trainer" / "own_script.py")


class Scripts(Cluster):
    """Nodes that run the script with the launcher; all save in one folder."""

    def run(self, rank: int, nodes: int, options: tuple[str, ...], *args: str, program: str = SCRIPT) -> Node:
        words = (
            "--join-timeout=60", f"--checkpoint-dir={self.root}/saved", *options, *program.split(),
            f"--checkpoints={self.root}/saved", *args,
        )  # fmt: skip
        return self.run_module(rank, "trainer.launch", words, self.vertex(rank, nodes))


@pytest.fixture
def scripts(tmp_path: Path) -> Iterator[Scripts]:
    found = Scripts(tmp_path)
    yield found
    found.end()


def printed(node: Node, pattern: str) -> list[str]:
    return re.findall(pattern, node.out.read_text())


def losses(*nodes: Node) -> dict[str, str]:
    return dict(pair for node in nodes for pair in printed(node, r"step=(\d+) total=\d+ loss=(\S+)"))  # type: ignore[misc]


def test_two_nodes_survive_a_kill_and_the_curve_is_that_of_a_run_in_peace(scripts: Scripts) -> None:
    whole = scripts.run(0, 1, ("--nproc=2",), f"--checkpoints={scripts.root}/whole")
    nodes = [scripts.run(rank, 2, (), "--pause=0.02") for rank in (0, 1)]
    wait_for((scripts.root / "saved" / "10.pt").exists, "a checkpoint", every=0.01)
    victim = nodes[1].worker()
    assert victim is not None
    victim.kill()
    assert [node.process.wait(120) for node in nodes] == [0, 0]
    begins = printed(nodes[0], r"starts at step (\d+) with 2 processes")
    assert len(begins) == 2 and int(begins[1]) >= 10
    killed = "rank 1 on node 1: the process ended with exit code 137 (SIGKILL)"
    # Node 0 may see its broken connection before it hears of the kill.
    assert killed in [entry["message"] for node in nodes for entry in entries(node)]
    assert whole.process.wait(120) == 0 and losses(nodes[0]) == losses(whole) and len(losses(whole)) == 60


def test_its_exit_code_and_its_error_are_the_launchers(scripts: Scripts) -> None:
    failing = scripts.run(0, 1, ("--nproc=2", "--max-restarts=1"), "--fail=1:3:error")
    ending = scripts.run(
        0, 1, ("--max-restarts=0",), "--fail=0:2:75", "--steps=3", program="-m tests.trainer.own_script"
    )
    assert failing.process.wait(120) == 1
    errors = [entry for entry in entries(failing) if entry["kind"] == "error"]
    assert [error["rank"] for error in errors] == [1, 1], "one for each attempt"
    assert errors[0]["message"] == "rank 1: LookupError: sample 3 is broken"
    assert "own_script.py" in errors[0]["traceback"]
    assert entries(failing)[-1]["message"].endswith("exit code 1: rank 1: LookupError: sample 3 is broken")
    assert "LookupError: sample 3 is broken" in failing.out.with_name("err").read_text(), (
        "as Python prints it"
    )
    assert ending.process.wait(120) == 75
    said = [entry["message"] for entry in entries(ending)]
    assert said[-2:] == [
        "the process ended with exit code 75",
        "giving up after 1 attempt without a new checkpoint, exit code 75: "
        "the process ended with exit code 75",
    ], "no signal has asked for it, so it is a failure; its open line swallows none of ours"


def test_a_signal_is_handed_on_and_what_was_saved_is_promised(scripts: Scripts) -> None:
    first = scripts.run(0, 1, ("--nproc=2",), "--steps=100000", "--pause=0.01")
    wait_for(lambda: len(losses(first)) > 3, "steps", every=0.02)
    children = psutil.Process(first.process.pid).children(recursive=True)
    first.process.send_signal(signal.SIGTERM)
    assert first.process.wait(60) == 75, "it exits with 0 after its save, and has not finished"
    saved = report.last_checkpoint(scripts.root / "saved", "*.pt")
    assert saved is not None and saved.stem == max(losses(first), key=int)
    wait_for(lambda: not any(map(lives, children)), "the end of its processes")


def test_what_is_wrong_with_the_command_line_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = script.parse(["--nproc-per-node", "2", "--preload=json,os", "-m", "a.b", "--steps", "3", "-m"])
    assert (found.name, found.is_module, found.args) == ("a.b", True, ("--steps", "3", "-m"))
    assert found.launch.nproc == 2 and found.preload == ("json", "os")
    monkeypatch.chdir(tmp_path)
    for words, said in (
        (["nowhere.py"], "the script nowhere.py does not exist"),
        (["--max-restarts=-1", "-m", "x"], "--max-restarts must be at least 0, not -1"),
        (["--nprocs=2", "-m", "x"], "--nprocs"),
        ([], "script"),
    ):
        with pytest.raises(UsageError, match=said):
            script.parse(words)


def test_a_script_reports_its_progress_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "_STEP_FILE", tmp_path / "progress.json")
    report.step(1, 9, loss=2.5)
    monkeypatch.setenv("RANK", "1")
    report.step(2, 9, loss=2.5)
    monkeypatch.delenv("RANK")
    report.step(2, 9, loss=2.0, tokens_per_second=100.0)
    first, second = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert first["vxtui"] == {"kind": "step", "step": 1, "total_steps": 9, "loss": 2.5}
    assert second["message"] == "step 2/9  loss 2.0000" and second["vxtui"]["tokens_per_second"] == 100.0
    assert json.loads(Path("progress.json").read_text())["step"] == 2
    assert report.last_checkpoint("nowhere") is None
    for name in ("step-9", "step-10", "step-11.tmp", "best"):
        Path(name).mkdir()
    assert report.last_checkpoint(".", "step-*") == Path("step-10")
