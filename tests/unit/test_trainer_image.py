"""The trainer's Dockerfile, as far as it can be checked without a builder."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.waiting import LIMIT

ROOT = Path(__file__).parents[2]


def instructions() -> list[tuple[str, str]]:
    """Name and text of each, comments gone and continued lines joined, as the builder reads them."""
    lines = [x for x in (ROOT / "trainer/Dockerfile").read_text().splitlines() if not x.startswith("#")]
    joined = re.sub(r"\\\n", "", "\n".join(lines))
    return [(name, text) for name, _, text in (x.partition(" ") for x in joined.splitlines() if x)]


def said(name: str) -> list[str]:
    return [text for found, text in instructions() if found == name]


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    found = [line.partition("==") for line in lines if line and not line.startswith("#")]
    return {name.lower().replace("_", "-"): version for name, _, version in found}


def command() -> str:
    """What installs the packages."""
    return next(text for text in said("RUN") if "requirements.txt" in text)


def test_all_that_is_copied_is_there_and_sent() -> None:
    sources = [word for text in said("COPY") for word in text.split()[:-1]]
    assert sorted(sources) == ["constraints.txt", "pyproject.toml", "trainer"]
    assert all((ROOT / source).exists() for source in sources)
    sent = (ROOT / "trainer/Dockerfile.dockerignore").read_text().split("\n")
    assert "*" in sent and all(f"!{source}" in sent for source in sources)


def test_the_supervisor_is_the_first_process() -> None:
    (entry,) = said("ENTRYPOINT")
    assert json.loads(entry) == ["python", "-m", "trainer.task"], "exec form: signals reach it"
    assert importlib.util.find_spec("trainer.task")
    assert "PYTHONPATH=/opt/code" in said("ENV") and "trainer /opt/code/trainer" in said("COPY")


def test_the_base_has_cuda_and_the_reducers_plugin_replaces_the_other() -> None:
    (base,) = said("FROM")
    assert re.fullmatch(r"nvidia/cuda:\$\{CUDA\}-cudnn-runtime-ubuntu24\.04", base)
    plugin = next(text for text in said("RUN") if "google-reduction-server" in text)
    order = ["remove -y google-fast-socket", "--no-install-recommends google-reduction-server"]
    assert sorted(order, key=plugin.index) == order
    assert not re.search(r"install [^&]*google-fast-socket(?! main)", plugin)


def test_every_package_of_the_image_is_pinned_and_the_pin_fits(tmp_path: Path) -> None:
    # The very line of the Dockerfile makes the list, from the very files that are copied.
    for name in ("constraints.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    make = command().split("&&")[0]
    subprocess.run(["sh", "-ec", make], cwd=tmp_path, check=True, timeout=LIMIT)
    lines = (tmp_path / "requirements.txt").read_text().splitlines()
    needs = [Requirement(line) for line in lines]
    assert {"torch", "deepspeed", "transformers", "safetensors", "nvidia-ml-py"} <= {n.name for n in needs}
    known = pins()
    for need in needs:
        pinned = known[need.name.lower()]
        assert need.specifier.contains(pinned, prereleases=True), (need, pinned)


@pytest.mark.parametrize(
    ("index", "expected"),
    [("", ["TORCH"]), ("https://x/whl/cu128", ["--extra-index-url", "https://x/whl/cu128", "TORCH+cu128"])],
)
def test_torch_is_installed_first_and_by_its_pin(tmp_path: Path, index: str, expected: list[str]) -> None:
    shutil.copy(ROOT / "constraints.txt", tmp_path)
    steps = [step.strip() for step in command().split("&&")]
    assert steps[2].startswith("DS_BUILD_OPS=0 pip install -c constraints.txt -r requirements.txt")
    shown = subprocess.run(
        ["sh", "-ec", f'pip() {{ printf "%s\\n" "$@"; }}; {steps[1]}'],
        cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "TORCH_INDEX": index},
        check=True, timeout=LIMIT, capture_output=True, text=True,
    ).stdout.split()  # fmt: skip
    torch = f"torch=={pins()['torch']}"
    assert shown == ["install", *(w.replace("TORCH", torch) for w in expected), "setuptools", "wheel"]
