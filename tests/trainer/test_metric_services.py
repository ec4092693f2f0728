"""W&B, MLflow and Vertex AI Experiments: what they receive, and that none can stop or slow the training."""

from __future__ import annotations

import json
import sys
import threading
import time
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from google.api_core.exceptions import NotFound

from trainer.config import parse
from trainer.errors import UsageError
from trainer.metrics.background import LIMIT, BackgroundSink
from trainer.metrics.experiments import ExperimentsWriter
from trainer.metrics.mlflow import MlflowWriter
from trainer.metrics.sinks import make_sinks
from trainer.metrics.wandb import WandbWriter


class Service:
    """A writer that fails or hangs on request."""

    name, package = "a service", "its-package"

    def __init__(self, error: Exception | None = None, answers: threading.Event | None = None) -> None:
        self.error, self.answers = error, answers
        self.written: list[tuple[int, Mapping[str, float]]] = []
        self.finished: bool | None = None

    def open(self) -> None:
        if self.answers is not None:
            self.answers.wait()

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        if self.error is not None:
            raise self.error
        self.written.append((step, metrics))

    def close(self, *, finished: bool) -> None:
        self.finished = finished


def warnings(capfd: pytest.CaptureFixture[str]) -> list[str]:
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    return [line["message"] for line in found if line["severity"] == "WARNING"]


def test_everything_recorded_is_written_in_its_order(capfd: pytest.CaptureFixture[str]) -> None:
    service = Service()
    sink = BackgroundSink(service)
    for step in range(50):
        sink.record(step, {"loss": step / 2})
    sink.close(30, finished=True)
    assert service.written == [(step, {"loss": step / 2}) for step in range(50)]
    assert service.finished and warnings(capfd) == []


@pytest.mark.parametrize(
    "error", [ValueError("no such project\nand more"), SystemExit(3), OSError(28, "full")]
)
def test_an_error_is_one_warning(capfd: pytest.CaptureFixture[str], error: Exception) -> None:
    service = Service(error)
    sink = BackgroundSink(service)
    for step in range(5):
        sink.record(step, {"loss": 1.0})
    sink.close(30, finished=True)
    (text,) = warnings(capfd)
    assert text.startswith("no metrics for a service: ") and "training continues" in text
    assert "\n" not in text


def test_a_service_that_hangs_stops_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    answers = threading.Event()
    sink = BackgroundSink(Service(answers=answers))
    began = time.monotonic()
    for step in range(LIMIT + 7):
        sink.record(step, {"loss": 1.0})
    sink.close(0.1, finished=False)
    # A blocked call would last for ever; a loaded machine may take long for a thousand of those that are not.
    assert time.monotonic() - began < 60
    (text,) = warnings(capfd)
    assert f"{LIMIT + 7} reported steps were not sent" in text
    answers.set()


def test_a_missing_package_is_named(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    sink = BackgroundSink(WandbWriter("project", "offline", "r", {}))
    sink.close(30, finished=True)
    (text,) = warnings(capfd)
    assert "W&B (--wandb-project): the package wandb is missing: pip install wandb" in text


def test_mlflow_continues_the_run_of_this_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "runs").as_uri())
    # The server is another package; the library writes folders only when it is asked to.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    for first in (True, False):
        sink = BackgroundSink(MlflowWriter("experiment", "run-7", {f"flag{n}": n for n in range(130)}))
        sink.record(3 if first else 4, {"loss": 0.5})
        sink.close(120, finished=not first)
    assert warnings(capfd) == []
    from mlflow import MlflowClient

    client = MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("experiment").experiment_id])
    assert run.info.status == "FINISHED" and len(run.data.params) == 130
    assert [point.step for point in client.get_metric_history(run.info.run_id, "loss")] == [3, 4]


def test_wandb_offline_writes_the_run_of_this_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    sink = BackgroundSink(WandbWriter("project", "offline", "run7", {"seed": 1}))
    sink.record(3, {"loss": 0.5})
    sink.close(200, finished=True)
    assert warnings(capfd) == []
    (written,) = (tmp_path / "wandb").glob("offline-run-*-run7/run-run7.wandb")
    assert written.stat().st_size > 0


class FakeExperiments(types.ModuleType):
    """The functions of google.cloud.aiplatform that the sink calls; runs are kept by id."""

    def __init__(self) -> None:
        super().__init__("google.cloud.aiplatform")
        self.runs: dict[str, list[Any]] = {}

    def init(self, **settings: Any) -> None:
        assert settings == {"experiment": "tuning", "experiment_tensorboard": None}

    def start_run(self, run: str, resume: bool = False) -> Any:
        if resume and run not in self.runs:
            raise NotFound(f"{run} is not there")
        said = self.runs.setdefault(run, [])
        return types.SimpleNamespace(
            log_params=said.append,
            log_time_series_metrics=lambda metrics, step: said.append((step, metrics)),
            end_run=lambda: said.append("ended"),
        )


def test_experiments_continues_the_run_of_this_id(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    import google.cloud

    fake = FakeExperiments()
    monkeypatch.setitem(sys.modules, "google.cloud.aiplatform", fake)
    monkeypatch.setattr(google.cloud, "aiplatform", fake, raising=False)
    for first in (True, False):
        sink = BackgroundSink(ExperimentsWriter("tuning", "", "Run_7", {"seed": 1}))
        sink.record(3 if first else 4, {"loss": 0.5})
        sink.close(60, finished=not first)
    assert warnings(capfd) == []
    assert fake.runs == {"run-7": [{"seed": 1}, (3, {"loss": 0.5}), (4, {"loss": 0.5}), "ended"]}


def test_flags_ask_for_services_on_rank_0_only(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr("trainer.metrics.sinks.BackgroundSink", made.append)
    flags = ["--wandb-project=p", "--wandb-mode=offline", "--mlflow-experiment=m", "--vertex-experiment=v"]
    make_sinks(parse(flags), 1, "id")
    assert not made
    make_sinks(parse(flags), 0, "id")
    assert [type(writer) for writer in made] == [WandbWriter, MlflowWriter, ExperimentsWriter]
    assert made[1]._settings["optimizer.learning_rate"] == 3e-3
    with pytest.raises(UsageError, match="--wandb-mode has no effect without --wandb-project"):
        parse(["--wandb-mode=offline"])
