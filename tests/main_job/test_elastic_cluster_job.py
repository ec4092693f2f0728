"""A job in the cluster of this machine is scaled by the console while it trains: 3 → 1 → 3 workers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.shell import Home, home
from tests.waiting import wait_for

PROFILES = Path(__file__).parents[2] / "profiles"
STEPS, BATCH = 300, 12
CLUSTER = ("--context", "local-k8s")


@pytest.fixture
def place() -> Iterator[Home]:
    with home() as found:
        yield found


class StepLines:
    """What the ranks have recorded of their steps."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def all(self) -> list[dict[str, Any]]:
        # The last line of a file may be half.
        texts = [path.read_text().split("\n")[:-1] for path in self.folder.glob("*.jsonl")]
        return [json.loads(line) for lines in texts for line in lines]

    def newest(self) -> tuple[int, int]:
        """The newest membership, and how many ranks have completed a step with it."""
        done = [line for line in self.all() if "hash" in line]
        epoch = max((line["epoch"] for line in done), default=0)
        return epoch, len({line["rank"] for line in done if line["epoch"] == epoch})


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_job_scaled_by_the_console_trains_each_sample_once(place: Home) -> None:
    steps = StepLines(place.root / "steps")
    profile = place.root / "elastic.yaml"
    text = (PROFILES / "k8s-elastic.yaml").read_text()
    profile.write_text(text.replace("--log-every=2", f"--log-every=2, --step-log={steps.folder}"))
    flags = ("--set", f"steps={STEPS}", "--set", f"batch={BATCH}", "--yes")
    launched = place.run(*CLUSTER, "launch", str(profile), *flags)
    assert launched.returncode == 0, launched.stderr
    job = launched.stdout.split()[-1].rpartition("/")[2]
    before = 0
    for workers in (3, 1, 3):
        if before:
            scaled = place.run(*CLUSTER, "scale", job, str(workers), "--yes")
            assert scaled.returncode == 0, scaled.stderr
        now = wait_for(
            lambda least=before, count=workers: (
                found if (found := steps.newest())[0] > least and found[1] == count else None
            ),
            f"{workers} ranks",
        )
        before = now[0]
    ended = wait_for(
        lambda: found if (found := place.json(*CLUSTER, "describe", job))["end_time"] else None,
        "the end",
        seconds=240,
        every=1.0,
    )
    assert ended["state"] == "SUCCEEDED"
    lines = steps.all()
    samples: dict[int, list[int]] = {step: [] for step in range(1, STEPS + 1)}
    for line in lines:
        samples[line["step"]] += line.get("samples", ())
    assert {len(found) for found in samples.values()} == {BATCH}, "the same global batch at each size"
    seen = [sample for found in samples.values() for sample in found]
    assert len(set(seen)) == len(seen) == STEPS * BATCH, "each sample once"
    hashes = {(line["step"], line["hash"]) for line in lines if "hash" in line}
    assert len(hashes) == STEPS, "the same weights on all ranks after each step"
