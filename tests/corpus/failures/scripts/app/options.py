"""Flags, configuration files and variables."""

import argparse
import os
from pathlib import Path


def parser():
    p = argparse.ArgumentParser(prog=os.environ.get("ENTRY", "train.py"))
    p.add_argument("--data", required=True)
    p.add_argument("--optimizer", choices=["adamw", "lion", "sgd"], default="adamw")
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--epochs", type=int, default=1)
    p.add_argument("--precision", choices=["bf16", "fp16", "fp32"], default="bf16")
    return p


def flags(trainer, argv=("--data", "gs://b/d")):
    return parser().parse_args(list(argv))


def click_flags(trainer, argv=("--lerning-rate", "1e-3")):
    import click

    @click.command("train")
    @click.option("--learning-rate", type=float)
    @click.option("--steps", type=int)
    def run(learning_rate, steps):
        pass

    run.main(list(argv), prog_name="train")


def yaml_file(trainer, text="model:\n  name: gpt\n hidden: 12\n"):
    import yaml

    path = Path(os.environ["WORK"]) / "config.yaml"
    path.write_text(text)
    with path.open() as file:
        return yaml.safe_load(file)


def config_key(trainer, key="num_experts"):
    config = {"hidden_size": 4096, "num_layers": 32}
    return config["model"][key] if "model" in config else config[key]


def variable(trainer, name="DATA_BUCKET"):
    return os.environ[name]


def variable_checked(trainer, name="HF_HOME"):
    if not os.environ.get(name + "_DIR"):
        raise SystemExit(f"error: the environment variable {name}_DIR is not set")


def integer(trainer, value="16k"):
    return int(value)


def pydantic_model(trainer):
    from pydantic import BaseModel, Field

    class TrainingConfig(BaseModel):
        learning_rate: float = Field(gt=0)
        warmup_steps: int
        scheduler: str

    return TrainingConfig(learning_rate="high", warmup_steps=100, scheduler="cosine")


def omega_missing(trainer):
    from omegaconf import OmegaConf

    config = OmegaConf.create({"data": {"path": "???"}, "model": {"dim": 512}})
    return config.data.path


def omega_interpolation(trainer):
    from omegaconf import OmegaConf

    config = OmegaConf.create({"batch": "${trainer.micro_batch}", "model": {"dim": 512}})
    return config.batch


def omega_struct(trainer):
    from omegaconf import OmegaConf

    config = OmegaConf.create({"model": {"hidden_dim": 512}})
    OmegaConf.set_struct(config, True)
    return config.model.hidden_size


def hydra_override(trainer, override="optimizer.learning_rat=0.1"):
    from hydra import compose, initialize_config_dir

    folder = Path(os.environ["WORK"]) / "conf"
    folder.mkdir(exist_ok=True)
    (folder / "config.yaml").write_text("optimizer:\n  learning_rate: 0.1\n")
    with initialize_config_dir(str(folder.resolve()), version_base=None):
        return compose("config", overrides=[override])


def hydra_group(trainer, name="llama9"):
    from hydra import compose, initialize_config_dir

    folder = Path(os.environ["WORK"]) / "conf"
    (folder / "model").mkdir(parents=True, exist_ok=True)
    (folder / "model" / "llama3.yaml").write_text("dim: 1\n")
    (folder / "config.yaml").write_text("defaults:\n  - model: llama3\n")
    with initialize_config_dir(str(folder.resolve()), version_base=None):
        return compose("config", overrides=[f"model={name}"])


def batch_sizes(trainer, batch=100, micro=8):
    world = trainer.s.world
    assert batch % (micro * world) == 0, (
        f"global batch size ({batch}) is not divisible by micro batch size ({micro}) times data parallel size ({world})"
    )


def parallel_sizes(trainer, tensor=8, pipeline=3):
    world = trainer.s.world
    if world % (tensor * pipeline):
        raise RuntimeError(
            f"world_size ({world}) is not divisible by tensor_model_parallel_size ({tensor}) x pipeline_model_parallel_size ({pipeline})"
        )


def exclusive(trainer):
    raise ValueError("--fp16 and --bf16 exclude each other: set one of them to False")


def unused(trainer):
    extra = ["--save_stepss", "500"]
    raise ValueError(f"Some specified arguments are not used by the HfArgumentParser: {extra}")


def device(trainer, name="cudaa:0"):
    raise ValueError(f"--device {name!r} is no device: choose cpu, cuda or cuda:N")
