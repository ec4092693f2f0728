"""What several tests share with test_group."""

from __future__ import annotations

import asyncio

from tests.ui.double import MemoryBackend, job
from tests.waiting import LIMIT
from tui.backends.group import GroupBackend
from tui.backends.interface import (
    ContextInfo,
)
from tui.domain.core.job import Job


def member(name: str, *numbers: int, regions: tuple[str, ...] = ("us-central1",)) -> MemoryBackend:
    jobs = []
    for number in numbers:
        one = job(number, f"{name}-{number}")
        full = one.name.replace("projects/p/", f"projects/{name}-project/")
        jobs.append(
            Job(**{**{f: getattr(one, f) for f in one.__dataclass_fields__}, "name": full, "context": name})
        )
    found = MemoryBackend(jobs, regions=regions)
    found.info = ContextInfo(name, f"{name}-project", regions, local=False)
    return found


async def until_ready(group: GroupBackend, count: int) -> None:
    await asyncio.wait(group._connecting.values(), timeout=LIMIT)
    assert len(group.ready()) == count
