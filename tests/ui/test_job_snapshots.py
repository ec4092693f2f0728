"""How a job's screen looks: each tab, three sizes, dark, light, 16 colours and ASCII. Time stands still."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from google.cloud.logging_v2.types import LogEntry as LogEntryPb

from tests.ui.double import console, job, pool
from tests.ui.job_double import JobBackend, at
from tests.ui.job_screen_support import backend_of
from tests.ui.job_snapshots_support import (
    LARGE,
    SMALL,
    TABS,
    USUAL,
    _utc,  # noqa: F401 - fixtures
    ready_screen,
)
from tui.backends.interface import Unavailable
from tui.backends.vertex.logs import convert
from tui.config.settings import Context, Settings
from tui.domain.core.job import JobError
from tui.domain.core.log_entry import LogGap
from tui.domain.core.states import JobState

DARK, LIGHT = "vxtui-dark", "vxtui-light"


@pytest.fixture
def look(tmp_path: Path, snap_compare: Any) -> Callable[..., None]:
    """Compare a job's screen after `keys`, on `backend`, with its picture."""

    def compare(
        size: tuple[int, int],
        keys: tuple[str, ...],
        *,
        backend: JobBackend | None = None,
        theme: str = DARK,
        fail: Unavailable | None = None,
        **settings: Any,
    ) -> None:
        used = backend or backend_of()
        here = Context("test", kind="local", project="p")
        app = console(used, tmp_path, context=here, settings=Settings(theme=theme, **settings))
        ready = partial(ready_screen, app=app, backend=used, keys=keys, fail=fail)
        assert snap_compare(app, terminal_size=size, run_before=ready)

    return compare


def large() -> JobBackend:
    gpus = "NVIDIA_TESLA_A100"
    pools = (pool(0, 1, gpus, 8), pool(1, 3, gpus, 8), pool(2, 60, reducer=True))
    return backend_of(job(101, "arr-coc-4x8-a100", age=302, strategy="SPOT", groups=pools), gpus=8)


def failed() -> JobBackend:
    error = JobError(9, "The replica workerpool1-0 exited with a non-zero status of 1.")
    return backend_of(job(5, "vit-[/]-ablation", JobState.FAILED, error=error, age=30, ended=1))


def gapped() -> JobBackend:
    backend = backend_of()
    backend.say(gaps=[LogGap(at(440), 38, "rate limit")])
    return backend


@pytest.mark.parametrize("size", [SMALL, USUAL, LARGE], ids=["80", "120", "200"])
@pytest.mark.parametrize("tab", ["overview", "replicas", "logs", "metrics"])
def test_tabs(look: Callable[..., None], tab: str, size: tuple[int, int]) -> None:
    look(size, TABS[tab])


@pytest.mark.parametrize("tab", ["attempts", "spec", "events"])
def test_still_tabs(look: Callable[..., None], tab: str) -> None:
    look(USUAL, TABS[tab])


def test_logs_light(look: Callable[..., None]) -> None:
    look(USUAL, TABS["logs"], theme=LIGHT)


def test_metrics_light(look: Callable[..., None]) -> None:
    look(USUAL, TABS["metrics"], theme=LIGHT)


def test_logs_in_sixteen_colours(look: Callable[..., None]) -> None:
    look(SMALL, (*TABS["logs"], "k", "k", "k"), theme="ansi16")


@pytest.mark.parametrize("tab", ["logs", "metrics", "replicas"])
def test_ascii(look: Callable[..., None], tab: str) -> None:
    look(SMALL, TABS[tab], ascii=True, backend=gapped() if tab == "logs" else None)


def test_a_search_with_a_marked_range_and_a_gap(look: Callable[..., None]) -> None:
    keys = ("slash", *"loss", "enter", "k", "k", "space", "k", "k")
    look(USUAL, (*TABS["logs"], *keys), backend=gapped())


def test_a_large_job(look: Callable[..., None]) -> None:
    look(USUAL, TABS["replicas"], backend=large())


def test_a_failed_job(look: Callable[..., None]) -> None:
    look(USUAL, TABS["overview"], backend=failed())


def test_an_unreachable_service(look: Callable[..., None]) -> None:
    look(SMALL, TABS["logs"], fail=Unavailable("nobody answers at test", fix="Is the network up?"))


STDERR = (
    "INFO train: loading dataset",
    "2026-11-21 10:00:00,123 WARNING train: 3 shards are missing",
    "/opt/conda/lib/python3.11/site-packages/torch/utils/data/dataloader.py:557: UserWarning: 8 workers",
    "  warnings.warn(",
    "  3%|3         | 30/1000 [00:10<05:23,  3.00it/s]",
    "I1121 10:00:00.123456 140000000000000 train.py:12] step 30",
    "Configuration saved in /tmp/checkpoint-30/config.json",
    "Traceback (most recent call last):",
    '  File "/app/train.py", line 12, in <module>',
    "    loss.backward()",
    "torch.OutOfMemoryError: CUDA out of memory.",
)


def test_stderr_lines(look: Callable[..., None]) -> None:
    """Vertex AI labels each of these lines ERROR; `e` goes to the traceback."""
    backend = backend_of()
    pbs = []
    for number, text in enumerate((*STDERR, "ERROR on stdout", "step 31 on stdout")):
        label = 500 if number < len(STDERR) else 200
        pb = LogEntryPb.pb()(text_payload=text, insert_id=f"{number:04}", severity=label)
        pb.timestamp.FromDatetime(at(number))
        pb.resource.labels["task_name"] = "workerpool0-0"
        pbs.append(pb)
    backend.entries = convert.entries(pbs)
    look(USUAL, (*TABS["logs"], "g", "e"), backend=backend)


def test_wrapped(look: Callable[..., None]) -> None:
    look(SMALL, (*TABS["logs"], "w", "J"))
