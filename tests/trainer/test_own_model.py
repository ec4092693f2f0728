"""`--model my.module:build`: the README's example trains and resumes, and errors are one sentence."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.trainer.in_turn import InTurn
from tests.trainer.ranks import Ranks
from trainer.config import parse
from trainer.errors import OwnCodeError, UsageError
from trainer.models.build import build_workload

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "profiles" / "examples" / "own-model" / "spirals.py"
STRATEGIES = ("ddp", "fsdp", "zero2", "zero3")
FLAGS = ("--model=spirals:build", "--model-args=width=32,depth=2", "--steps=8", "--checkpoint-every=4")


def example_of_the_readme() -> str:
    text = (ROOT / "trainer" / "README.md").read_text()
    section = text.partition("## A model of your own\n")[2]
    (code,) = re.findall(r"^    import math\n(?:(?:    .*)?\n)+", section, re.MULTILINE)
    return dedent(code).rstrip() + "\n"


@pytest.mark.arithmetic
def test_the_example_of_the_readme_trains_and_resumes_with_every_strategy(tmp_path: Path) -> None:
    assert example_of_the_readme() == EXAMPLE.read_text(), "the README shows the example's file"
    (tmp_path / "spirals.py").write_text(example_of_the_readme())
    runs = {name: (*FLAGS, f"--strategy={name}", "--eval-every=8") for name in STRATEGIES}
    whole = InTurn(tmp_path, 2, runs).wait()
    for name in STRATEGIES:
        assert whole[name].code == 0, whole[name].errors[-800:]
        assert whole[name].steps("loss") == pytest.approx(whole["ddp"].steps("loss"), abs=1e-5)
        assert "eval" in [line["kind"] for line in whole[name].lines]
        shutil.rmtree(tmp_path / name / "checkpoints" / "step-8")
    again = InTurn(tmp_path, 2, runs).wait()
    for name in STRATEGIES:
        assert again[name].code == 0, again[name].errors[-800:]
        resumed = [line for line in again[name].lines if line["kind"] == "resumed"]
        assert [line["step"] for line in resumed] == [4]
        # Its output continues in the same file: steps 1 to 8, then 5 to 8 again.
        assert again[name].steps("loss")[8:] == whole[name].steps("loss")[4:], "bit for bit"


BROKEN = {
    "nothing": "",
    "text": "build = 'text'",
    "raises": "def build(config):\n    size = config.steps\n    raise ValueError(f'bad size {size}')\n",
    "inside": "import torch\ndef build(config):\n    return torch.nn.Linear(-1, 2)\n",
    "syntax": "def build(config:\n",
    "imports": "import no_such_package\n",
    "wrong": "def build(config):\n    return 5\n",
    "meta": (
        "import torch\nfrom trainer.models.workload import Workload\n"
        "def build(config):\n    with torch.device('meta'):\n        model = torch.nn.Linear(2, 1)\n"
        "    return Workload(model, [], [(torch.ones(2),)] * 99)\n"
    ),
    "samples": (
        "import torch\nfrom trainer.models.workload import Workload\n"
        "def build(config):\n    return Workload(torch.nn.Linear(2, 1), [], [{'x': torch.ones(2)}] * 99)\n"
    ),
    "unreadable": (
        "import torch\nfrom trainer.models.workload import Workload\nclass Data:\n"
        "    def __len__(self):\n        return 99\n"
        "    def __getitem__(self, index):\n        return open('nowhere')\n"
        "def build(config):\n    return Workload(torch.nn.Linear(2, 1), [], Data())\n"
    ),
}
SAID = {
    "gone": r"no module gone in .* or on the PYTHONPATH",
    "nothing": r"build does not exist in .*nothing\.py",
    "text": r"build is not a function in .*text\.py",
    "raises": r"ValueError: bad size 400 \(.*raises\.py, line 3\)",
    "inside": r"RuntimeError: .* \(.*inside\.py, line 3\)",
    "syntax": r"SyntaxError: '\(' was never closed \(.*syntax\.py, line 1\)",
    "imports": r"ModuleNotFoundError: No module named 'no_such_package' \(.*imports\.py, line 1\)",
    "wrong": r"returned a int, not a trainer\.models\.workload\.Workload \(.*wrong\.py, line 1\)",
    "meta": r"returned a model on the meta device without a source of weights",
    "samples": r"returned train data whose samples are not tuples of tensors",
    "unreadable": r"FileNotFoundError: .*nowhere.* \(.*unreadable\.py, line 7\)",
}


@pytest.mark.parametrize("case", SAID)
def test_a_mistake_is_one_sentence_with_its_place(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    name = f"own_{case}" if case != "gone" else case
    if case in BROKEN:
        (tmp_path / f"{name}.py").write_text(BROKEN[case])
    try:
        with pytest.raises(UsageError, match=SAID[case].replace(case + r"\.py", name + r"\.py")) as caught:
            build_workload(parse([f"--model={name}:build"]))
    finally:
        sys.modules.pop(name, None)
    assert str(caught.value).startswith(f"--model {name}:build") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--model=spirals:build:x",), "must be module:function"),
        (("--model=spirals:",), "must be module:function"),
        (("--model=other",), "or your own module:function"),
        (("--model=spirals:build", "--model-args=width"), "width must be NAME=VALUE"),
        (("--model=spirals:build", "--model-args=height=3"), "unexpected keyword argument 'height'"),
        (("--model=spirals:build", "--batch=5000"), "exceeds the 4096 samples"),
    ],
)
def test_wrong_flags_of_an_own_model(
    flags: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(EXAMPLE.parent)
    with pytest.raises(UsageError, match=said):
        build_workload(parse(flags))


def test_an_output_that_is_no_loss_ends_the_run_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "no_loss.py").write_text(
        "import torch\nfrom trainer.models.workload import Workload\n"
        "class Model(torch.nn.Linear):\n    def forward(self, x):\n        return super().forward(x)\n"
        "def build(config):\n    return Workload(Model(2, 1), [], [(torch.ones(2),)] * 99)\n"
    )
    run = Ranks(tmp_path, 2, "--model=no_loss:build")
    assert run.wait() == [2, 2], run.errors()
    said = [line for line in run.lines() if line["kind"] == "error"]
    assert len(said) == 1 and re.search(
        r"--model no_loss:build: the forward pass returns a tensor of torch.float32 and shape \[8, 1\], "
        r"not a scalar loss \(.*no_loss\.py, line 4\)",
        said[0]["message"],
    )
    assert OwnCodeError.__name__ in said[0]["traceback"]
