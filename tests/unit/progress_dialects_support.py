"""What several tests share with test_progress_dialects."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from tui.domain.core.log_entry import LogEntry, Severity
from tui.domain.core.training_progress import TrainingStep
from tui.domain.progress.job_progress import JobProgress

START = datetime(2026, 11, 22, 10, tzinfo=UTC)
CORPUS = Path(__file__).with_name("progress_corpus")
NEGATIVE = "negative"
FILES = sorted(path.stem for path in CORPUS.glob("*.yaml") if path.stem != NEGATIVE)


def log_entry(said: str | dict[str, Any], at: float = 0.0, replica: str = "workerpool0-0") -> LogEntry:
    """A line as the service delivers it: a JSON line is an object, whose `message` is the text."""
    payload = said if isinstance(said, dict) else None
    text = str(said.get("message") or json.dumps(said)) if isinstance(said, dict) else said
    return LogEntry(START + timedelta(seconds=at), f"{at:012.3f}", replica, Severity.INFO, text, payload, "1")


def read_all(said: Iterable[str | dict[str, Any]]) -> tuple[JobProgress, list[TrainingStep]]:
    """A job that prints these lines, one a second."""
    reader = JobProgress()
    steps = [step for at, one in enumerate(said) for step in reader.add(log_entry(one, at))]
    return reader, steps


def negative() -> list[str | dict[str, Any]]:
    return list(yaml.safe_load((CORPUS / f"{NEGATIVE}.yaml").read_text("utf-8"))["entries"])
