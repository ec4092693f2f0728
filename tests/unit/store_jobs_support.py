"""What several tests share with test_store_jobs."""

from __future__ import annotations

from tests.ui.double import NOON
from tui.backends.interface import (
    JobPage,
)
from tui.store.jobs.table import JobChange, JobStore


def read(store: JobStore, *pages: JobPage) -> list[JobChange]:
    store.begin()
    return [*(store.apply(page, NOON) for page in pages), store.finish(NOON)]
