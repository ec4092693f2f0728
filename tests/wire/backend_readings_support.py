"""What several tests share with test_backend_readings."""

from __future__ import annotations

from tests.wire.fake_vertex import Fake, line

NAME = "projects/p/locations/us-central1/customJobs/1"


def step(fake: Fake, number: int, loss: float, *, at: float, job: str = "1", replica: str = "") -> None:
    pb = line(f"s{number}", at=at, job=job, replica=replica or "workerpool0-0")
    pb.insert_id = f"{replica}{job}-{at:010.3f}"
    pb.json_payload.update(
        {"message": "s", "vxtui": {"kind": "step", "step": number, "total_steps": 100, "loss": loss}}
    )
    fake.entries.append(pb)
