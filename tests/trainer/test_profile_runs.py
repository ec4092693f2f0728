"""What each ready-made profile asks for trains: its own arguments, with a tiny model on a CPU.

The product of all profiles, strategies, stages and precisions would take minutes. So each profile runs as it
is, in both precisions, and of what its parameters can choose each combination of model, strategy, stage and
precision runs once.
"""

from __future__ import annotations

import itertools
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.trainer.in_turn import InTurn
from trainer.config import parse

ROOT = Path(__file__).parents[2]
PROFILES = sorted((ROOT / "profiles").glob("*.yaml"))
SMALL = {
    "gpt": ("--preset=tiny", f"--data={ROOT / 'README.md'}"),
    "arr-coc": ("--weights=tiny", "--image-tokens=16", "--context=64", "--data=", "--workers=0"),
    "spirals:build": (),
}
"""Sizes that replace the profile's own."""
FLAGS = ("--device=cpu", "--steps=3", "--batch=2", "--micro-batch=2", "--checkpoint-every=0")


def trainer_arguments(profile: dict[str, Any]) -> list[str]:
    """The arguments of its first worker pool; empty if that does not run `trainer.task`."""
    container = profile.get("jobSpec", {}).get("workerPoolSpecs", [{}])[0].get("containerSpec", {})
    args = [str(arg) for arg in container.get("args", [])]
    if "package" in profile:
        # Its script has the first arguments of the trainer, and passes those of the profile on.
        start = ROOT / "profiles" / profile["package"]["path"] / profile["package"]["script"]
        task = re.search(r"-m trainer\.task (.*) \"\$@\"", start.read_text())
        return [*task[1].split(), *args] if task else []
    ours = "command" not in container or "trainer.task" in " ".join(container["command"])
    return args if ours and all(arg.startswith("--") for arg in args) else []


def variants(path: Path) -> Iterator[list[str]]:
    """Its arguments with the parameters' defaults, then with each choice of strategy and stage."""
    profile = yaml.safe_load(path.read_text())
    args, parameters = trainer_arguments(profile), profile.get("parameters", {})
    defaults = {name: settings["default"] for name, settings in parameters.items()}
    chosen = {
        name: parameters[name]["choices"]
        for arg in args
        for name in re.findall(r"^--(?:strategy|stage)=\$\{(\w+)\}$", arg)
    }
    every = [dict(zip(chosen, values, strict=True)) for values in itertools.product(*chosen.values())]
    for own in ({}, *every) if args else ():
        values = defaults | own
        yield [re.sub(r"\$\{(\w+)\}", lambda found: str(values[found[1]]), arg) for arg in args]  # noqa: B023


def combinations(model: str, precision: str) -> dict[str, list[str]]:
    """The runs by name: every profile once, and each strategy and stage once."""
    seen, runs = set(), {}
    for path in PROFILES:
        for number, args in enumerate(variants(path)):
            config = parse(args)
            kind = (config.parallel.strategy, config.model.stage)
            if config.model.model == model and (number == 0 or kind not in seen):
                seen.add(kind)
                runs["-".join((path.stem, *kind))] = [
                    *args, *SMALL[model], *FLAGS, f"--precision={precision}",
                ]  # fmt: skip
    return runs


def test_each_profile_s_arguments_are_those_of_the_trainer() -> None:
    ours = [path for path in PROFILES if trainer_arguments(yaml.safe_load(path.read_text()))]
    assert len(ours) >= 14
    for path in ours:
        assert {parse(args).model.model for args in variants(path)} <= set(SMALL), path.name


@pytest.mark.parametrize(
    ("model", "precision"),
    [
        ("gpt", "fp32"),
        ("gpt", "bf16"),
        ("arr-coc", "bf16"),
        ("spirals:build", "fp32"),
        ("spirals:build", "bf16"),
        # What these profiles ask for is bf16.
        pytest.param("arr-coc", "fp32", marks=pytest.mark.slow),
    ],
)
def test_what_profiles_ask_for_trains(tmp_path: Path, model: str, precision: str) -> None:
    runs = combinations(model, precision)
    shutil.copy(ROOT / "profiles" / "examples" / "own-model" / "spirals.py", tmp_path)
    stages = 3 if model == "arr-coc" else 1
    assert len(runs) >= 5 * stages, "each strategy and stage"
    found = InTurn(tmp_path, 1, runs).wait()
    failed = {name: run.errors[-400:] for name, run in found.items() if run.code}
    assert not failed, f"{len(failed)} of {len(runs)} runs: {failed}"
    for name, run in found.items():
        assert len(run.steps("loss")) == 3 and all(map(math.isfinite, run.steps("loss"))), name
