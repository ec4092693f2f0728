"""A file of DeepSpeed's settings: each key takes effect, or is refused by name."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.trainer.in_turn import InTurn
from trainer.config import parse
from trainer.distributed.batch_plan import BatchPlan
from trainer.errors import UsageError
from trainer.strategy.deepspeed.package import load_deepspeed
from trainer.strategy.deepspeed.settings import _REFUSED, _SUPPORTED, engine_settings

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture(autouse=True, scope="module")
def deepspeed() -> Any:
    return load_deepspeed(torch.device("cpu"))


def settings(tmp_path: Path, text: str, *flags: str, strategy: str = "zero2") -> dict[str, Any]:
    path = tmp_path / "ds.json"
    path.write_text(text)
    config = parse([f"--strategy={strategy}", f"--deepspeed-config={path}", *flags])
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(config.parallel.precision, torch.float32)
    return engine_settings(config, BatchPlan.of(16, 4, 2), dtype, int(strategy.removeprefix("zero")))


def test_what_flags_do_not_set_is_taken_from_the_file(tmp_path: Path) -> None:
    file = {
        "zero_optimization": {
            "stage": "auto", "reduce_bucket_size": 7, "stage3_prefetch_bucket_size": 8,
            "offload_optimizer": {"device": "cpu", "pin_memory": True},
        },
        "train_batch_size": 16, "train_micro_batch_size_per_gpu": "auto", "gradient_clipping": 1.0,
        "bf16": {"enabled": "auto"}, "fp16": {"enabled": False, "loss_scale_window": 100},
        "optimizer": "auto", "tensorboard": {"enabled": False}, "wall_clock_breakdown": False,
        "gradient_allreduce_op": "mean", "data_types": {"grad_accum_dtype": "fp32"},
    }  # fmt: skip
    found = settings(tmp_path, json.dumps(file), "--offload=optimizer")
    zero = found["zero_optimization"]
    assert (zero["stage"], zero["reduce_bucket_size"], zero["stage3_prefetch_bucket_size"]) == (2, 7, 8)
    assert zero["offload_optimizer"] == {"device": "cpu", "pin_memory": True}
    assert found["train_batch_size"] == 16 and found["gradient_accumulation_steps"] == 2
    assert found["fp16"]["loss_scale_window"] == 100 and found["data_types"] == {"grad_accum_dtype": "fp32"}
    assert "optimizer" not in found and "tensorboard" not in found


@pytest.mark.parametrize(
    ("file", "flags", "words"),
    [
        ({"zero_optimisation": {}}, "", "zero_optimisation must be a .*did you mean zero_optimization?"),
        ({"nebula": {}}, "", "nebula must be a DeepSpeed setting"),
        (
            {"zero_optimization": {"reduce_buckt_size": 7}}, "",
            "zero_optimization.reduce_buckt_size must be a .* setting.*did you mean reduce_bucket_size?",
        ),
        (
            {"zero_optimization": {"offload_optimizer": {"pin_memry": True}}}, "",
            "offload_optimizer.pin_memry must be a .* setting.*did you mean pin_memory?",
        ),
        ({"zero_optimization": {"reduce_bucket_size": "big"}}, "", "zero_optimization.reduce_bucket_size: "),
        ({"zero_optimization": True}, "", "zero_optimization must be an object, not true"),
        ({"zero_optimization": {"stage": 3}}, "", "stage is set by --strategy zero2 to 2, not 3"),
        (
            {"zero_optimization": {"offload_optimizer": {"device": "nvme"}}}, "",
            'offload_optimizer.device is set by --offload none to "none", not "nvme"',
        ),
        ({"zero_optimization": {"cpu_offload": True}}, "", "cpu_offload is set by --offload; remove it"),
        ({"bf16": {"enabled": True}}, "", "bf16.enabled is set by --precision auto to false, not true"),
        ({"bf16": {"enabled": False}}, "--precision=bf16", "bf16.enabled is set by --precision bf16 to true"),
        ({"torch_autocast": {"enabled": True}}, "", "torch_autocast is set by --precision"),
        ({"bfloat16": {"enabled": True}}, "", "bfloat16 is an old name of bf16"),
        ({"data_types": {"grad_acum_dtype": "fp32"}}, "", "did you mean grad_accum_dtype?"),
        ({"scheduler": {"type": "WarmupLR"}}, "", "scheduler is set by --warmup and --steps; remove it"),
        ({"optimizer": {"type": "Adam"}}, "", "optimizer is set by --learning-rate"),
        ({"train_batch_size": 99}, "", "train_batch_size is set by --batch to 16, not 99"),
        ({"gradient_accumulation_steps": 4}, "", "steps is set by --batch and --micro-batch to 2, not 4"),
        ({"gradient_clipping": 0.5}, "", "gradient_clipping is set by --clip to 1.0, not 0.5"),
        ({"gradient_allreduce_op": "sum"}, "", "gradient_allreduce_op must be mean"),
        ({"activation_checkpointing": {"cpu_checkpointing": True}}, "", "set by --activation-checkpointing"),
        ({"checkpoint": {"load_universal": True}}, "", "checkpoint is set by --checkpoint-dir"),
        ({"wandb": {"enabled": True}}, "", "wandb is not used here"),
    ],
)  # fmt: skip
def test_what_has_no_effect_or_a_wrong_one_is_refused(
    tmp_path: Path, file: dict[str, Any], flags: str, words: str
) -> None:
    with pytest.raises(UsageError, match=rf"--deepspeed-config {tmp_path / 'ds.json'}: .*{words}"):
        settings(tmp_path, json.dumps(file), *flags.split())


def test_a_key_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="stage appears twice"):
        settings(tmp_path, '{"zero_optimization": {"stage": 2, "stage": 3}}')


class Recorder(dict[str, Any]):
    """A dict that records the keys it is asked for."""

    asked: set[str] = set()  # noqa: RUF012 - its copies share it

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)

    def keys(self) -> Any:
        return self

    def __copy__(self) -> Recorder:
        return Recorder(super().copy())


def test_every_key_that_deepspeed_reads_is_known() -> None:
    """A new DeepSpeed version with a new key fails here: support or refuse the key."""
    from deepspeed.runtime import config as theirs

    ours = engine_settings(parse(["--strategy=zero2"]), BatchPlan.of(4, 4, 1), torch.float32, 2)
    recorder = Recorder(copy.deepcopy(ours))
    theirs.DeepSpeedConfig(recorder)
    removed = set(theirs._REMOVED_TOP_LEVEL_CONFIG_KEYS)
    known = {*_SUPPORTED, *_REFUSED}
    assert recorder.asked - removed - known == set()
    assert len(recorder.asked & known) > 40


def test_a_refused_file_ends_the_run_before_it_begins_and_a_good_one_trains(tmp_path: Path) -> None:
    for name, stage in (("wrong", 3), ("right", 2)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"zero_optimization": {"stage": stage}}))
    flags = ("--strategy=zero2", "--steps=1", f"--data={README}")
    runs = {name: (*flags, f"--deepspeed-config={tmp_path / name}.json") for name in ("wrong", "right")}
    found = InTurn(tmp_path, 1, runs).wait()
    assert found["wrong"].code == 1 and "zero_optimization.stage is set by" in found["wrong"].errors
    assert found["right"].code == 0, found["right"].errors
