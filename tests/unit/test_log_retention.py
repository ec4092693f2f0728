"""Where logs are kept, and which of them go."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from tests.ui.double import NOON, Clock, MemoryBackend, job
from tests.unit.log_store_support import many
from tui.actions.operations.jobs import JobOperations
from tui.actions.operations.runner import OperationRunner
from tui.config.access import ContextAccess
from tui.config.settings import Context
from tui.domain.core.states import JobState
from tui.store.journal import Journal
from tui.store.log.retention import begin_log, log_folder, prune_logs, remove_logs
from tui.store.log.store import LogStore

DAY = 86_400


def kept(root: Path, name: str, *, days: float = 0, lines: int = 100) -> Path:
    folder = log_folder(root, "prod", f"projects/p/locations/l/customJobs/{name}")
    store = LogStore(folder)
    store.append(many(lines))
    store.close()
    for path in folder.iterdir():
        changed = path.stat().st_mtime - days * DAY
        os.utime(path, (changed, changed))
    return folder


def test_two_jobs_never_share_a_folder_and_a_name_leaves_no_other(tmp_path: Path) -> None:
    folders = {
        log_folder(tmp_path, context, name)
        for context in ("a", "b")
        for name in ("jobs/1", "jobs/../1", "x/jobs/1", "jobs/", "jobs/" + "[/]" * 50)
    }
    assert len(folders) == 10
    assert all(folder.parent == tmp_path / "job-logs" and len(folder.name) < 60 for folder in folders)


def test_old_logs_go_and_the_oldest_of_too_many_but_none_that_is_open(tmp_path: Path) -> None:
    old, new = kept(tmp_path, "1", days=40), kept(tmp_path, "2", days=1)
    logs = old.parent
    assert prune_logs(logs) == [old] and new.exists() and not old.exists()
    newer = kept(tmp_path, "3")
    opened = kept(tmp_path, "4", days=99)
    store = LogStore(opened)
    size = sum(path.stat().st_size for path in newer.iterdir())
    assert prune_logs(logs, max_bytes=size + 10) == [new]
    assert newer.exists() and opened.exists()
    store.close()
    assert prune_logs(logs) == [opened]
    assert prune_logs(tmp_path / "none") == []


def test_the_log_of_a_deleted_job_goes_in_every_context_and_no_other(tmp_path: Path) -> None:
    name = "projects/p/locations/l/customJobs/{}"
    mine, others = kept(tmp_path, "12"), [kept(tmp_path, "123"), kept(tmp_path, "12-a")]
    others.append(log_folder(tmp_path, "prod", "projects/q/locations/l/customJobs/12"))
    LogStore(others[-1]).close()
    elsewhere = log_folder(tmp_path, "all", name.format("12"))
    LogStore(elsewhere).close()
    opened = LogStore(elsewhere)
    assert remove_logs(tmp_path, name.format("12")) == [mine]
    opened.close()
    assert remove_logs(tmp_path, name.format("12")) == [elsewhere]
    assert all(other.exists() for other in others) and not mine.exists() and not elsewhere.exists()


async def test_deleting_a_job_deletes_the_log_that_was_kept_of_it(tmp_path: Path) -> None:
    backend = MemoryBackend([job(1, "ended", JobState.SUCCEEDED)])
    ended = next(iter(backend.stored.values()))
    folder = log_folder(tmp_path, "test", ended.name)
    LogStore(folder).close()
    journal = Journal(tmp_path / "audit.jsonl", Clock())
    runner = OperationRunner(Context("test"), ContextAccess(), journal, "verb")
    outcome = await JobOperations(runner, backend).delete(ended)
    assert outcome.ok and not folder.exists()


def test_another_job_of_the_same_name_begins_a_new_log(tmp_path: Path) -> None:
    folder = log_folder(tmp_path, "cluster", "clusters/c/namespaces/n/pytorchjobs/train")
    found = []
    for created in (NOON, NOON, None, NOON + timedelta(hours=1), NOON + timedelta(hours=1)):
        begin_log(folder, created)
        store = LogStore(folder)
        found.append(len(store))
        store.append(many(3))
        store.close()
    assert found == [0, 3, 3, 0, 3]
