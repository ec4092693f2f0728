"""An error of any rank: one entry of the log, the last word of every node, and the exit code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.distributed.elastic.multiprocessing.errors import record

from tests.trainer.broken_workload import BROKEN, REGISTER
from tests.trainer.multi_node_support import ROOT, Cluster, Node
from tests.trainer.ranks import Ranks
from trainer.checkpoint.save import prepare_folder
from trainer.data.same_data import same_data
from trainer.distributed.process_group import ProcessGroup
from trainer.errors import DataError, UsageError
from trainer.supervision import failure
from trainer.supervision.failure import AttemptFailure, NodeFailures, read_record, report_error

FLAGS = ("--model=broken", "--max-restarts=0", "--batch=4", "--checkpoint-every=0", "--grace=0")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path)
    (tmp_path / "sitecustomize.py").write_text(REGISTER)
    (tmp_path / "text.txt").write_text("some words " * 4000)
    yield found
    found.end()


def start(cluster: Cluster, rank: int, nodes: int, broken: str, *flags: str) -> Node:
    env = {"PYTHONPATH": f"{cluster.root}:{ROOT}", BROKEN: broken, **cluster.vertex(rank, nodes)}
    return cluster.start(rank, nodes, *FLAGS, f"--data={cluster.root}/text.txt", *flags, env=env)


def entries(node: Node) -> list[dict[str, Any]]:
    """The lines of severity ERROR or WARNING."""
    found = [json.loads(line) for line in node.out.read_text().splitlines() if line.startswith("{")]
    shown = [{**line["vxtui"], **{k: line[k] for k in ("message", "severity")}} for line in found]
    return [line for line in shown if line["severity"] != "INFO"]


def test_the_error_of_any_local_rank_is_one_entry_with_its_place(cluster: Cluster) -> None:
    node = start(cluster, 0, 1, "1 5 bug", "--nproc=2")
    assert node.process.wait(120) == 1
    error, followers, last = entries(node)
    assert error["kind"] == "error" and "rank 1: ValueError: sample" in error["message"]
    place = {"rank": 1, "local_rank": 1, "node_rank": 0, "attempt": 0, "step": 3, "position": 8}
    assert {name: error[name] for name in place} == place
    # Two of the four samples of a batch are this rank's, and the second one of step 3 is broken.
    assert len(error["samples"]) == 2 and f"sample {error['samples'][1]} is broken" in error["message"]
    assert "broken_workload.py" in error["traceback"]
    assert followers["severity"] == "WARNING" and followers["followers"] == [0]
    assert last["message"].endswith(f"exit code 1: {error['message']}")


def test_an_error_in_a_readers_process_on_another_node_ends_the_run_with_2(cluster: Cluster) -> None:
    nodes = [start(cluster, rank, 2, "1 5 data", "--workers=1") for rank in (0, 1)]
    assert [node.process.wait(120) for node in nodes] == [2, 2], "no node tries again"
    first, second = entries(nodes[0]), entries(nodes[1])
    error = second[0]
    assert error["kind"] == "error" and error["message"].startswith("the image ")
    assert error["message"].endswith(".png can't be read"), "without the traceback of the reader around it"
    assert (error["rank"], error["node_rank"], error["step"]) == (1, 1, 3)
    assert [line["message"] for line in first if line["severity"] == "ERROR"] == [
        f"node 1: {error['message']}"
    ]
    assert not [line for line in first + second if line.get("phase") == "restarting"]


def test_a_node_with_other_data_is_named_before_the_first_step(cluster: Cluster) -> None:
    nodes = []
    for rank in (0, 1):
        own = cluster.root / f"text-{rank}.txt"
        own.write_text(f"rank {rank} " * 4000)
        nodes.append(start(cluster, rank, 2, "9 9 bug", "--model=gpt", f"--data={own}"))
    assert [node.process.wait(120) for node in nodes] == [2, 2]
    for node in nodes:
        (error,) = entries(node)
        assert error["message"] == (
            "node 1 has as many samples as node 0 (437), but different ones: all nodes must see the same data"
        )
        assert not node.lines("step")


def test_the_node_that_differs_from_most_is_named() -> None:
    class Nodes:
        node_rank = 1

        def all_gather(self, value: object) -> list[tuple[int, dict[str, object]]]:
            assert value == (1, right)
            return found

    right: dict[str, object] = {"samples": 2400, "hash": "a"}
    found = [(0, {"samples": 1769, "hash": "b"}), (1, right), (2, right), (3, {"samples": 2400, "hash": "c"})]
    with pytest.raises(DataError, match=r"node 0 has 1,769 samples, and node 1 has 2,400 \(2 nodes differ\)"):
        same_data(right, Nodes())  # type: ignore[arg-type]
    found = [(node, right) for node in range(4)]
    assert same_data(right, Nodes()) == right  # type: ignore[arg-type]


def test_without_a_supervisor_each_rank_reports_its_own_error(tmp_path: Path) -> None:
    run = Ranks(tmp_path, 2, "--model=faulty", "--steps=4", "--batch=2", env={"FAULTY_STEPS": "no JSON"})
    assert run.wait() == [1, 1]
    for rank in (0, 1):
        errors = [line for line in run.lines(rank) if line["kind"] == "error"]
        assert [line["rank"] for line in errors] == [rank] and "JSONDecodeError" in errors[0]["message"]


def test_the_first_failure_is_the_cause_and_followers_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    found = NodeFailures(tmp_path, 3, 1, (2, 3))

    def fail(local_rank: int, error: Exception) -> None:
        monkeypatch.setenv(failure.ERROR_FILE, str(found.file(local_rank)))
        monkeypatch.setenv("RANK", str(2 + local_rank))
        monkeypatch.setenv("LOCAL_RANK", str(local_rank))
        try:
            raise error
        except (DataError, KeyError, RuntimeError, ValueError) as caught:
            assert report_error(caught, {}) == (2 if isinstance(error, DataError) else 1)

    fail(2, KeyError("the first"))
    fail(1, RuntimeError("[gloo/pair.cc:1] Connection closed by peer [::1]"))
    fail(0, ValueError("x" * 100_000))
    assert found.add(1, 1) and found.cause is not None and found.cause.follower
    assert found.add(0, 1) and not found.cause.follower
    assert found.add(2, 1) and found.cause.message == "rank 4 on node 1: KeyError: 'the first'"
    assert not found.add(1, 1)
    found.report(is_cause=True)
    error, warning = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert error["message"] == found.cause.message and error["vxtui"]["rank"] == 4
    assert warning["vxtui"]["followers"] == [3] and warning["severity"] == "WARNING"
    stack = read_record(found.file(0)).fields["traceback"]  # type: ignore[union-attr]
    assert len(stack) < 40_000 and stack.rstrip().endswith("xxx")
    # What another node has reported makes later errors consequences.
    later = NodeFailures(tmp_path, 3, 1, (2, 3))
    assert later.add(0, 1, ended_before=1.0) and later.cause is not None and later.cause.follower


def test_a_failure_without_followers_precedes_earlier_ones_with() -> None:
    own, peer = AttemptFailure("a", 5.0), AttemptFailure("b", 4.0, follower=True)
    assert own.precedes(peer) and not peer.precedes(own)
    assert AttemptFailure("c", 4.0).precedes(own) and own.precedes(None)


def test_a_record_of_torchs_own_format_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @record
    def train() -> None:
        raise ValueError("theirs")

    path = tmp_path / "error.json"
    monkeypatch.setenv(failure.TORCH_ERROR_FILE, str(path))
    with pytest.raises(ValueError, match="theirs"):
        train()
    found = read_record(path)
    assert found is not None and found.message == "ValueError: theirs" and not found.follower
    assert "in train" in found.fields["traceback"]
    for damaged in ("", "{}", "[]", '{"message": 3}', '{"message": {}, "vxtui": {}}', "\udcff"):
        path.write_text(damaged, errors="replace")
        assert read_record(path) is None


def test_a_folder_that_cannot_be_written_is_a_wrong_flag(tmp_path: Path, group: ProcessGroup) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        UsageError, match=r"--checkpoint-dir .*file/ck can't be written on this node: Not a dir"
    ):
        prepare_folder(tmp_path / "file" / "ck", group)
