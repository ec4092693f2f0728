"""Data order and settings."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.checkpoint.locations import upload_uri
from trainer.cloud_paths import local_path
from trainer.config import parse
from trainer.data.sampler import Sampler
from trainer.data.text import Windows
from trainer.distributed.batch_plan import BatchPlan
from trainer.distributed.device import select_device
from trainer.errors import UsageError
from trainer.loop.schedule import learning_rate
from trainer.metrics.step_log import StepLog
from trainer.strategy.deepspeed import engine as deepspeed

TEXT = torch.arange(1000, dtype=torch.int64).remainder(251).to(torch.uint8)


def indices(world: int, position: int, seed: int, batches: int = 3) -> list[list[int]]:
    """The samples of the next global batches, each sorted."""
    plan = BatchPlan.of(8, 3, world)
    ranks = [iter(Sampler(11, plan, seed=seed, rank=r, position=position)) for r in range(world)]
    found = []
    for _ in range(batches):
        rows = [next(rank) for rank in ranks for _ in plan.micro_batches]
        found.append(sorted(n for row in rows for n in row))
    return found


@given(st.sampled_from([1, 2, 4, 8]), st.integers(0, 400), st.integers(0, 5))
@settings(max_examples=60)
def test_the_global_batch_does_not_depend_on_the_world_size(world: int, position: int, seed: int) -> None:
    assert indices(world, position, seed) == indices(1, position, seed)


@given(st.integers(0, 60), st.integers(1, 4))
@settings(max_examples=30)
def test_a_position_is_all_that_a_resume_needs(position: int, batches: int) -> None:
    whole = indices(2, position, 0, batches + 2)
    assert indices(2, position + 8 * batches, 0, 2) == whole[batches:]


def test_an_epoch_sees_every_sample_once_in_another_order() -> None:
    rows = iter(Sampler(11, BatchPlan.of(1, 1, 1), seed=0, rank=0))
    first, second = ([next(rows)[0] for _ in range(11)] for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(11)) and first != second


def test_windows_are_shifted_by_one() -> None:
    windows = Windows(TEXT, 8)
    assert len(windows) == 999 // 8
    inputs, targets = windows[3]
    assert inputs.tolist() == TEXT[24:32].tolist() and targets.tolist() == TEXT[25:33].tolist()


@given(st.integers(1, 64), st.integers(1, 16), st.integers(1, 8))
def test_a_batch_is_split_evenly_or_refused(batch: int, most: int, world: int) -> None:
    if batch % world:
        with pytest.raises(UsageError, match="can't be split"):
            BatchPlan.of(batch, most, world)
        return
    plan = BatchPlan.of(batch, most, world)
    sizes = plan.micro_batches
    assert sum(sizes) * world == batch and max(sizes) == plan.micro_batch <= most
    assert max(sizes) - min(sizes) <= 1 and len(sizes) == plan.accumulation_steps
    assert most * (len(sizes) - 1) < batch // world, "no fewer would do"
    assert sum(plan.weights) == pytest.approx(1)


def test_a_batch_without_a_good_divisor_has_micro_batches_of_two_sizes() -> None:
    assert BatchPlan.of(34, 16, 2).micro_batches == (9, 8)
    assert BatchPlan.of(8, 3, 1).micro_batches == (3, 3, 2)


def test_a_model_of_the_user_s_own_reads_its_data_and_weights_itself() -> None:
    config = parse(["--model=mine:build", "--data=s3://bucket/x", "--weights=w", "--model-args=n=1"])
    assert (config.data.data, config.model.weights) == ("s3://bucket/x", "w")


def test_a_step_log_that_can_t_be_written_is_the_user_s_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"--step-log .*file can't be written on this node: File exists"):
        StepLog(str(tmp_path / "file"))


def test_each_job_has_its_own_folder_below_the_output() -> None:
    env = {"AIP_CHECKPOINT_DIR": "gs://b/out/checkpoints/", "CLOUD_ML_JOB_ID": "42"}
    assert upload_uri("", env) == "gs://b/out/checkpoints/42"
    assert upload_uri("gs://x/y", env) == "gs://x/y"
    assert upload_uri("", {}) == ""


def test_cloud_paths_resolve_to_their_mount(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VXTUI_GCS_ROOT", raising=False)
    assert local_path("gs://b/x") == Path("/gcs/b/x")
    monkeypatch.setenv("VXTUI_GCS_ROOT", "/buckets")
    assert local_path("/gcs/b/x") == Path("/buckets/b/x") == local_path("gs://b/x")


def test_settings_are_completed() -> None:
    config = parse(["--preset", "tiny", "--checkpoint-every", "50"])
    assert config.data.batch == 16 and config.model.context == 64
    assert config.checkpoint.upload_every == 100
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match="no GPU"):
            select_device("cuda")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--steps=0", "--steps must be at least 1, not 0"),
        ("--steps=many", "--steps: invalid int value: 'many'"),
        ("--learning-rate=-1", "--learning-rate must be at least 0, not -1"),
        ("--learning-rate=nan", "--learning-rate must be a finite number, not nan"),
        ("--join-timeout=0", "--join-timeout must be above 0, not 0"),
        ("--clip=inf", "--clip must be a finite number, not inf"),
        ("--peer-timeout=nan", "--peer-timeout must be a finite number, not nan"),
        ("--seed=-1", "--seed must be from 0 to 4294967295, not -1"),
        ("--checkpoint-evry=5", "--checkpoint-evry is not a flag; did you mean --checkpoint-every?"),
        ("--strategy=zero4", "--strategy: invalid choice: 'zero4'"),
        ("--dropout=1", r"--dropout must be in \[0, 1\), not 1.0"),
        ("--offload=all", "--offload needs --strategy zero1, zero2 or zero3, not ddp"),
        ("--checkpoint-every=50 --upload-every=120", "must be a multiple of --checkpoint-every 50.*use 100"),
        ("--upload-dir=s3://bucket/run", "--upload-dir s3://bucket/run: s3:// is not supported; use gs://"),
        ("--checkpoint-dir=hdfs://run", "--checkpoint-dir hdfs://run: hdfs:// is not supported"),
        ("--data=texts,s3://bucket/x", "--data texts,s3://bucket/x: s3:// is not supported"),
        ("--upload-dir=gs://", "--upload-dir gs://: the address must have a bucket: use gs://BUCKET/FOLDER"),
        ("--data=a.txt,", "--data a.txt,: a path is empty and would mean the working directory"),
        ("--weights=some/model", "--weights some/model has no effect on --model gpt, only on causal-lm and"),
        ("--model=causal-lm --answer-tokens=3", "--answer-tokens 3 has no effect on --model causal-lm"),
        ("--model-args=width=3", "--model-args width=3 needs --model my.module:build"),
        ("--early-stop=3", "--early-stop has no effect without --eval-every"),
        ("--hang-timeout=1e308", r"--hang-timeout must be at most 2000000, not 1e\+308"),
        ("--micro-batch=Auto", "--micro-batch: 'Auto' must be a number or auto"),
        ("--strategy=zero2 --deepspeed-config=/nowhere", "--deepspeed-config /nowhere: No such file"),
    ],
)
def test_an_unusable_flag_is_one_sentence(flags: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse(flags.split())


@pytest.mark.parametrize(
    ("flags", "knows_gpus", "loaded"),
    [("--device=cpu", True, True), ("--device=auto", False, True), ("--device=auto", True, False)],
)
def test_deepspeed_is_preloaded_only_where_it_can_open_no_gpu(
    monkeypatch: pytest.MonkeyPatch, flags: str, knows_gpus: bool, loaded: bool
) -> None:
    found: list[torch.device] = []
    monkeypatch.setattr(deepspeed, "load_deepspeed", found.append)
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: knows_gpus)
    deepspeed.preload(parse(["--strategy=zero2", flags]))
    assert found == [torch.device("cpu")] * loaded


def test_the_learning_rate_warms_up_and_falls() -> None:
    config = parse(["--steps", "100", "--warmup", "10"])
    rates = [learning_rate(config, step) for step in range(100)]
    assert rates[:10] == sorted(rates[:10]) and rates[9:] == sorted(rates[9:], reverse=True)
    assert max(rates) == pytest.approx(config.optimizer.learning_rate)


def test_a_line_is_json_without_nan_and_a_full_disk_is_survived() -> None:
    say = "from trainer.structured_log import emit; emit('step', 'x', loss=float('nan')); print('lives')"
    done = subprocess.run([sys.executable, "-c", say], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[0])["vxtui"]["loss"] is None
    say = "from trainer.structured_log import emit; emit('step', 'x')"
    with Path("/dev/full").open("wb") as full:
        assert subprocess.run([sys.executable, "-c", say], stdout=full, check=False).returncode == 0


def test_the_defaults_depend_on_the_model_and_the_task(tmp_path: Path) -> None:
    def defaults(*flags: str) -> tuple[float, ...]:
        config = parse(list(flags))
        optimizer = config.optimizer
        return (
            config.model.context, config.data.max_micro_batch, optimizer.learning_rate, optimizer.weight_decay
        )  # fmt: skip

    assert defaults() == (64, 16, 3e-3, 0.1)
    causal = ("--model=causal-lm", f"--weights={tmp_path}")
    assert defaults(*causal) == (1024, 1, 1e-5, 0.0), "its configuration is not there"
    for content, context in (
        ({"max_position_embeddings": 2048}, 2048), ({"n_positions": 512}, 512),
        ({"text_config": {"max_position_embeddings": 131072}}, 4096),
    ):  # fmt: skip
        (tmp_path / "config.json").write_text(json.dumps(content))
        assert defaults(*causal) == (context, 1, 1e-5, 0.0)
    assert defaults(*causal, "--lora-rank=8")[2:] == (2e-4, 0.0)
    assert defaults("--model=causal-lm", f"--weights={tmp_path / 'config.json'}") == (4096, 16, 3e-3, 0.1)
    own = ("--context=7", "--micro-batch=3", "--learning-rate=0.5", "--weight-decay=0.25")
    assert defaults(*causal, *own) == (7, 3, 0.5, 0.25)


def test_the_help_has_the_most_used_flags_and_all_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    shown = {}
    for flag in ("--help", "--help-all"):
        with pytest.raises(SystemExit) as ended:
            parse([flag])
        assert ended.value.code == 0
        shown[flag] = capsys.readouterr().out
    flags = {
        name: set(re.findall(r"^  (?:-h, )?(--[a-z0-9-]+)", text, re.MULTILINE))
        for name, text in shown.items()
    }
    assert (
        len(flags["--help"]) <= 27 and flags["--help"] < flags["--help-all"] and len(flags["--help-all"]) > 90
    )
    assert "--learning-rate" in flags["--help"] and "--momentum" not in flags["--help"]
    assert "(default: 400)" in shown["--help"] and "--help-all lists all" in shown["--help"]
    assert "The optimizer, its learning rate" in shown["--help-all"]


@pytest.mark.parametrize("name", ["a.yaml", "a.json"])
def test_a_config_file_has_the_flags_and_the_command_line_replaces_them(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    own = ["--steps=7", "--preset=small", "--learning-rate=0.25", "--compile=on", "--micro-batch=auto"]
    # What --print-config prints, which is also YAML.
    path.write_text(json.dumps(asdict(parse(own))))
    assert parse([f"--config={path}"]) == parse(own)
    assert parse(["--config", str(path), "--steps=9"]).steps == 9
    if name == "a.yaml":
        path.write_text("steps: 7\noptimizer: sgd\ncompile: on\nweight-decay: 0\ndata:\n  batch: 32\n")
        config = parse([f"--config={path}"])
        assert (config.steps, config.optimizer.optimizer, config.parallel.compile) == (7, "sgd", "on")
        assert (config.optimizer.weight_decay, config.data.batch) == (0.0, 32)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("stepz: 7", "--stepz is not a flag; did you mean --steps"), ("- 1", "must have flags by name"),
        ("steps: [1]", "steps must be a text or a number"), ("a: b: c", "can't be read"),
        ("steps: x", "invalid int value"),
    ],
)  # fmt: skip
def test_a_wrong_config_file_is_an_error(tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(content)
    with pytest.raises(UsageError, match=re.escape(told)):
        parse([f"--config={path}"])
    with pytest.raises(UsageError, match="No such file"):
        parse([f"--config={tmp_path}/b.yaml"])
