"""The trainer's steps of a pipeline, as far as they need no service, and the flags that it gives them."""

from __future__ import annotations

import base64
import io
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from trainer.pipeline.__main__ import STEPS, main
from trainer.pipeline.canary import CanaryCheck, drawn, instances, quantile
from trainer.pipeline.release import ServingMachine, with_canary
from trainer.pipeline.stages import STAGES, evaluation_pools, stage_folders, stage_pools, with_flags
from trainer.pipeline.study import NoTrial, best_of, best_trial

IR = Path(__file__).parents[2] / "profiles" / "pipelines" / "arr-coc.yaml"
POOLS: list[dict[str, Any]] = [
    {"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1,
     "container_spec": {"image_uri": "trainer", "args": ["--model=arr-coc"]}},
    {},
    {"replica_count": 2, "container_spec": {"image_uri": "reducer"}},
]  # fmt: skip
LENGTH = {"steps": 5, "samples": 8}


def test_each_stage_begins_with_the_weights_of_the_one_before() -> None:
    best = ["--image-tokens=16"]
    folders = stage_folders("gs://b/f/", POOLS, best, **LENGTH)
    pools = stage_pools(POOLS, folders, best, **LENGTH)
    assert list(pools) == [name for name, _ in STAGES]
    before = ""
    for name, stage in STAGES:
        args = pools[name][0]["container_spec"]["args"]
        assert args[:2] == ["--model=arr-coc", f"--stage={stage}"] and "--image-tokens=16" in args
        assert f"--upload-dir={folders[name]}" in args and "--steps=5" in args
        begins = [word for word in args if word.startswith("--init-weights=")]
        assert begins == ([f"--init-weights={before}"] if before else [])
        before = folders[name]
        assert pools[name][1] == {} and pools[name][2]["container_spec"]["args"] == args[1:]
    assert with_flags(POOLS[:2]) == POOLS[:2] and "args" not in POOLS[2]["container_spec"]
    (alone,) = evaluation_pools(POOLS, "gs://b/c", "gs://b/e.json", samples=8)
    assert alone["replica_count"] == 1
    assert alone["container_spec"]["args"] == ["gs://b/c", "--samples=8", "--out=gs://b/e.json"]


def test_the_same_settings_have_the_same_folders_and_others_have_others() -> None:
    first = stage_folders("gs://b", POOLS, ["--a=1"], **LENGTH)
    assert first == stage_folders("gs://b", json.loads(json.dumps(POOLS)), ["--a=1"], **LENGTH)
    for other in (
        stage_folders("gs://b", POOLS, ["--a=2"], **LENGTH),
        stage_folders("gs://b", POOLS[:1], ["--a=1"], **LENGTH),
        stage_folders("gs://b", POOLS, ["--a=1"], steps=6, samples=8),
    ):
        assert not set(first.values()) & set(other.values())


def trial(value: float | None, state: int = 4, **parameters: Any) -> Any:
    measured = [] if value is None else [SimpleNamespace(metric_id="loss", value=value)]
    given_here = [SimpleNamespace(parameter_id=name, value=each) for name, each in parameters.items()]
    return SimpleNamespace(
        state=state, parameters=given_here, final_measurement=SimpleNamespace(metrics=measured)
    )


def test_the_best_trial_is_that_of_the_goal() -> None:
    trials = [trial(3.0, x=1.0), trial(2.0, x="4,8", y=0.5), trial(1.0, state=5), trial(None)]
    assert best_trial(trials, SimpleNamespace(metric_id="loss", goal=2)) == (["--x=4,8", "--y=0.5"], 2.0)
    assert best_trial(trials, SimpleNamespace(metric_id="loss", goal=1)) == (["--x=1"], 3.0)
    with pytest.raises(NoTrial, match="none of the 1 trials has measured loss"):
        best_trial(trials[3:], SimpleNamespace(metric_id="loss", goal=2))
    with pytest.raises(NoTrial, match="no tuning job"):
        best_of(
            json.dumps({"resources": [{"resourceUri": "https://x/v1/projects/p/locations/l/customJobs/1"}]})
        )


@given(
    st.dictionaries(st.from_regex(r"[1-9][0-9]{0,3}", fullmatch=True), st.integers(1, 100), max_size=5),
    st.integers(1, 99),
)
def test_a_canary_takes_its_share_from_the_others(weights: dict[str, int], percent: int) -> None:
    whole = sum(weights.values())
    current = {key: value * 100 // whole for key, value in weights.items()}
    split = with_canary(current, percent)
    assert sum(split.values()) == 100 and min(split.values()) >= 0
    if any(current.values()):
        assert split["0"] == percent and split.keys() - {"0"} == {k for k, v in current.items() if v}
    else:
        assert split == {"0": 100}


def test_what_makes_a_canary_bad() -> None:
    assert not CanaryCheck(100, 1, 10, 0.2).problem(0.01, 0.2)
    assert "predictions failed; the last error: x" in CanaryCheck(100, 2, 10, 0.2, "x").problem(0.01, 1)
    assert "the canary answered none" in CanaryCheck(100, 0, 0, math.nan).problem(0.0, 1)
    assert "within 0.2 s, not 0.300 s" in CanaryCheck(100, 0, 9, 0.3).problem(0.0, 0.2)
    assert math.isnan(quantile([], 0.95)) and quantile([3.0, 1.0, 2.0], 0.95) == 3
    assert quantile([float(n) for n in range(100)], 0.95) == 94


def test_questions_are_drawn_or_those_of_a_file(tmp_path: Path) -> None:
    first, second = drawn(0), drawn(1)
    assert first["image"] != second["image"]
    assert Image.open(io.BytesIO(base64.b64decode(first["image"]))).size == (128, 128)
    (tmp_path / "x.png").write_bytes(b"image")
    (tmp_path / "q.jsonl").write_text('{"image": "x.png", "question": "a?"}\n\n')
    asked = instances(str(tmp_path / "q.jsonl"))
    for _ in range(2):
        assert next(asked) == {"image": base64.b64encode(b"image").decode(), "question": "a?"}
    (tmp_path / "none.jsonl").write_text("\n")
    with pytest.raises(ValueError, match="has no questions"):
        next(instances(str(tmp_path / "none.jsonl")))
    assert ServingMachine("m", "NVIDIA_L4").resources()["machine_spec"]["accelerator_count"] == 1


def test_a_step_writes_its_outputs_and_a_failed_one_says_why(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "task" / "sweep"
    flags = ["--pools", json.dumps(POOLS), "--steps", "5", "--samples", "8", "--sweep-out", str(out)]
    assert main(["plan-sweep", *flags]) == 0
    args = json.loads(out.read_text())[0]["container_spec"]["args"]
    assert args[1:] == [
        "--stage=adapter",
        "--steps=5",
        "--eval-every=5",
        "--eval-samples=8",
        "--tuning-metric=loss",
    ]
    read = ["read-evaluation", "--result", str(tmp_path / "none.json")]
    assert main([*read, "--likelihood-out", "x", "--accuracy-out", "y"]) == 1
    assert "the step read-evaluation failed: " in capfd.readouterr().out


def test_the_pipeline_gives_each_step_the_flags_that_it_takes() -> None:
    spec = next(yaml.safe_load_all(IR.read_text()))
    used = set()
    for executor in spec["deploymentSpec"]["executors"].values():
        command = executor.get("container", {}).get("command", [])
        if "trainer.pipeline" in command:
            args = executor["container"]["args"]
            assert {word.removeprefix("--") for word in args[::2]} == set(STEPS[command[-1]][1])
            used.add(command[-1])
    assert used == set(STEPS)
