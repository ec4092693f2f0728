"""What several tests share with test_progress_dialects."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tui.domain.core.log_entry import LogEntry, Severity
from tui.domain.core.training_progress import TrainingStep
from tui.domain.progress.job_progress import JobProgress

START = datetime(2026, 11, 22, 10, tzinfo=UTC)
CORPUS = Path(__file__).with_name("progress_corpus")
NEGATIVE = "negative"
FILES = sorted(path.stem for path in CORPUS.glob("*.yaml") if path.stem != NEGATIVE)
FEATURES = {
    "speed": lambda progress: progress.speed,
    "learning_rate": lambda progress: progress.learning_rate,
    "remaining": lambda progress: (progress.ends_at - progress.updated_at).total_seconds(),
}


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


@pytest.mark.parametrize("name", FILES)
def test_a_dialect_is_read(name: str) -> None:
    known = yaml.safe_load((CORPUS / f"{name}.yaml").read_text("utf-8"))
    expected = known["expect"]
    reader, steps = read_all(known["entries"])
    progress = reader.progress
    assert (progress.step, progress.total_steps) == (expected["step"], expected["total"])
    assert progress.first_loss == pytest.approx(expected["first_loss"])
    assert progress.last_loss == pytest.approx(expected["last_loss"])
    for feature in FEATURES.keys() & expected:
        assert FEATURES[feature](progress) == pytest.approx(expected[feature], rel=1e-3), feature
    if "unit" in expected:
        assert progress.speed_unit == expected["unit"]
    if "dialect" in known:
        assert progress.dialect == known["dialect"]
    losses = {step.step: step.loss for step in steps if step.loss is not None}
    for number_, loss in known.get("steps", {}).items():
        assert losses[number_] == pytest.approx(loss)
    if "steps" in known:
        assert set(losses) == set(known["steps"])
    assert set(known.get("numbers", ())) <= {name for step in steps for name, _ in step.numbers}


def negative() -> list[str | dict[str, Any]]:
    return list(yaml.safe_load((CORPUS / f"{NEGATIVE}.yaml").read_text("utf-8"))["entries"])
