"""The trainer's Dockerfile, as far as it can be checked without a builder."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

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


def command(words: str) -> str:
    """The RUN instruction with these words."""
    (found,) = (text for text in said("RUN") if words in text)
    return found


def copied() -> list[tuple[str, list[str]]]:
    """Of each COPY its stage, "" for the folder that is sent, and its sources."""
    found = []
    for text in said("COPY"):
        words = text.split()
        stage = words[0].removeprefix("--from=") if words[0].startswith("--") else ""
        found.append((stage, words[1 if stage else 0 : -1]))
    return found


def shown(step: str, home: Path, **env: str) -> list[str]:
    """The arguments of pip that a part of a RUN instruction comes to, one a line."""
    run = subprocess.run(
        ["sh", "-ec", f'pip() {{ printf "%s\\n" "$@"; }}; {step}'],
        cwd=home, env={"PATH": "/usr/bin:/bin", **env},
        check=True, timeout=LIMIT, capture_output=True, text=True,
    )  # fmt: skip
    return run.stdout.split()


def test_all_that_is_copied_is_there_and_sent(tmp_path: Path) -> None:
    sources = [word for stage, words in copied() if not stage for word in words]
    assert sorted(sources) == ["constraints.txt", "pyproject.toml", "trainer"]
    assert all((ROOT / source).exists() for source in sources)
    sent = (ROOT / "trainer/Dockerfile.dockerignore").read_text().split("\n")
    assert "*" in sent and all(f"!{source}" in sent for source in sources)
    # From the stage that makes the lists: what its own line writes, and what it was sent.
    make_lists(tmp_path)
    made = {f"/src/{path.name}" for path in tmp_path.iterdir()}
    taken = [word for stage, words in copied() if stage for word in words]
    assert {stage for stage, _ in copied() if stage} == {"requirements"} and set(taken) <= made


def make_lists(home: Path) -> None:
    """What the first stage does, by its very line and with the very files that are copied."""
    for name in ("constraints.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, home)
    subprocess.run(["sh", "-ec", command("tomllib")], cwd=home, check=True, timeout=LIMIT)


def test_the_supervisor_is_the_first_process_and_can_write_where_it_runs() -> None:
    (entry,) = said("ENTRYPOINT")
    assert json.loads(entry) == ["python", "-m", "trainer.task"], "exec form: signals reach it"
    assert importlib.util.find_spec("trainer.task")
    assert "PYTHONPATH=/opt/code" in said("ENV") and "trainer /opt/code/trainer" in said("COPY")
    assert said("USER") == ["${RUN_AS}"] and "RUN_AS=root" in said("ARG")
    assert said("WORKDIR")[-1] == "/work" and "chown trainer /work" in command("useradd")
    order = [name for name, _ in instructions()]
    assert order.index("USER") > max(n for n, name in enumerate(order) if name == "RUN")


def test_the_only_cuda_is_that_of_torch_s_wheels() -> None:
    bases = [text.split()[0] for text in said("FROM")]
    assert set(bases) == {"python:${PYTHON}-slim-bookworm"} and "PYTHON=3.11" in said("ARG")
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert SpecifierSet(wanted).contains("3.11")
    # What NVIDIA's own images set; the machine's runtime reads it and mounts the driver there.
    environment = " ".join(said("ENV"))
    for setting in (
        "NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        "LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64",
    ):  # fmt: skip
        assert setting in environment
    installed = " ".join(text for text in said("RUN") if "apt-get install" in text)
    assert not re.search(r"cuda|cudnn|nccl", installed)


def test_there_are_the_compilers_that_compiled_models_need() -> None:
    assert "--no-install-recommends g++" in command("g++"), "it comes with gcc, for Triton"
    assert all("rm -rf /var/lib/apt/lists" in text for text in said("RUN") if "apt-get update" in text)


def test_the_reducers_plugin_replaces_the_other() -> None:
    plugin = command("google-reduction-server")
    order = ["remove -y google-fast-socket", "--no-install-recommends google-reduction-server"]
    assert sorted(order, key=plugin.index) == order
    assert not re.search(r"install [^&]*google-fast-socket(?! main)", plugin)
    # apt reads a key with armour by this ending only.
    assert plugin.count("/usr/share/keyrings/google.asc") == 3


def test_every_package_of_the_image_is_pinned_and_the_pin_fits(tmp_path: Path) -> None:
    make_lists(tmp_path)
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
    make_lists(tmp_path)
    first, then = command("TORCH_INDEX"), command("-r requirements.txt")
    assert said("RUN").index(first) < said("RUN").index(then)
    torch, setuptools = f"torch=={pins()['torch']}", f"setuptools=={pins()['setuptools']}"
    assert shown(first, tmp_path, TORCH_INDEX=index) == [
        "install", *(word.replace("TORCH", torch) for word in expected), setuptools, "wheel"
    ]  # fmt: skip
    assert then == "DS_BUILD_OPS=0 pip install -c constraints.txt -r requirements.txt"


def test_the_code_is_the_last_layer_that_is_copied_and_is_tried() -> None:
    order = [text for name, text in instructions() if name in {"RUN", "COPY"}]
    code, tried = order.index("trainer /opt/code/trainer"), order.index(command("--print-config"))
    assert max(order.index(text) for text in order if "pip install" in text) < code < tried
    flash = command("FLASH_ATTN")
    assert "--no-deps" in flash, "it must not change torch"
    (line,) = re.findall(r"python -m trainer\.task [^&>]*", order[tried])
    done = subprocess.run(
        [sys.executable, *line.split()[1:]], cwd=ROOT, check=True, timeout=LIMIT, capture_output=True
    )  # fmt: skip
    assert json.loads(done.stdout)
