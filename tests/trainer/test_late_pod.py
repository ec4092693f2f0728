"""A pod of an elastic job that comes after the others have done the last step and gone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.trainer.multi_node_support import Cluster, Node

FLAGS = (
    "--preset=tiny", "--device=cpu", "--batch=4", "--log-every=1", "--dropout=0", "--join-timeout=60",
    "--checkpoint-every=0",
)  # fmt: skip
STEPS = 2
pytestmark = pytest.mark.xdist_group("late pod")


class Job(Cluster):
    """Pods of a PyTorchJob of 1 to 3 workers, each with its own disk, and a common place for uploads."""

    def pod(self, index: int, *flags: str) -> Node:
        env = {
            "PET_RDZV_ENDPOINT": f"127.0.0.1:{self.port}", "PET_RDZV_BACKEND": "c10d", "PET_NNODES": "1:3",
            "HOSTNAME": f"job-worker-{index}",
        }  # fmt: skip
        return self.run_module(index, "trainer.task", self.flags(*flags), env)

    def flags(self, *flags: str) -> tuple[str, ...]:
        return (*FLAGS, f"--upload-dir={self.root}/uploads", *flags)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    """A finished run: one pod alone did all steps and uploaded the result."""
    found = Job(tmp_path_factory.mktemp("job"))
    try:
        done = found.run_module(0, "trainer.task", found.flags(f"--steps={STEPS}"), {})
        assert done.process.wait(120) == 0, (done.out.parent / "err").read_text()
        yield found
    finally:
        found.end()


@pytest.mark.parametrize("more", [(), ("--check-replicas=1",)], ids=["stays", "starts again"])
def test_it_ends_at_once(job: Job, more: tuple[str, ...]) -> None:
    late = job.pod(1, f"--steps={STEPS}", "--join-timeout=600", *more)
    assert late.process.wait(120) == 0
    assert "the run ended without this node" in late.out.read_text()


@pytest.mark.parametrize("flag", [f"--steps={STEPS + 1}", "--resume=never"])
def test_it_waits_where_steps_are_left_to_do(job: Job, flag: str) -> None:
    late = job.pod(1, f"--steps={STEPS}", flag, "--join-timeout=1")
    assert late.process.wait(120) == 204
    assert "within 1 s" in late.out.read_text()
