"""A Python-package job, really installed and run, without a network."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from google.protobuf import json_format

from tests.wire.attempts import Attempt, attempt
from tui.emulator.config import EmulatorConfig
from tui.emulator.interfaces import CustomJobPb, JobRecord
from tui.emulator.runs.environment import build_plan

SETUP = "from setuptools import setup; setup(name='mine', version='1', packages=['trainer', 'extra'])"
TASK = "import sys, os, extra; print(extra.WORD, sys.argv[1:], __file__.startswith(os.environ['HOME']))"


@pytest.mark.parametrize("broken", [False, True], ids=["good", "broken"])
def test_a_package_is_installed_beside_the_replica_and_run(broken: bool) -> None:
    with attempt() as one:
        bucket = one.state.buckets / "staging"
        source = one.state.root / "source"
        for name, text in (("trainer", TASK), ("extra", "")):
            (source / name).mkdir(parents=True)
            (source / name / "__init__.py").write_text("WORD = 'installed'" if name == "extra" else "")
            (source / name / "task.py").write_text(text)
        (source / "setup.py").write_text(SETUP)
        subprocess.run(
            [sys.executable, "setup.py", "-q", "sdist", "--formats=gztar", "-d", str(bucket)],
            cwd=source, check=True, timeout=120, capture_output=True,
        )  # fmt: skip
        (archive,) = bucket.iterdir()
        if broken:
            archive.write_bytes(b"not an archive")
        run_package(one, f"gs://staging/{archive.name}")
        status = one.ended()
        if broken:
            assert status.outcome == "failed" and status.exit_code == 1
            assert "could not be installed" in one.output(stream="stderr")
        else:
            # Its module is called like the trainer that comes with the emulator, and wins.
            assert status.outcome == "succeeded", one.output(stream="stderr")
            lines = one.output().splitlines()
            name = archive.name
            assert lines[:2] == ["Running run_module.py", "Running module trainer.task."]
            assert lines[2].startswith("Downloading the package: ") and lines[2].endswith(name)
            assert lines[3] == (
                f"Running command: pip3 install --user --upgrade --force-reinstall --no-deps {name}"
            )
            assert lines[4:] == [
                "installed ['--n', '1'] True",
                "Task completed. Exit code (0). Exit reason (SUCCEEDED)",
            ]


def wheel(folder: Path, name: str, requires: str = "") -> None:
    """A wheel made by hand: a module of that name, and what it needs."""
    info = f"{name}-1.0.dist-info"
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    files = {
        f"{name}.py": f"WORD = {name!r}\n",
        f"{info}/METADATA": about + (f"Requires-Dist: {requires}\n" if requires else ""),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)


# Seconds: setuptools builds a package and pip resolves its requirements in a new environment.
@pytest.mark.parametrize("there", [True, False], ids=["in the index", "nowhere"])
def test_only_requirements_that_are_missing_here_are_fetched(there: bool) -> None:
    task = "import vxneeded, vxdeep, psutil; print(vxneeded.WORD, vxdeep.WORD, psutil.__file__)"
    with attempt() as one:
        bucket = one.state.buckets / "staging"
        index = one.state.root / "index"
        for folder in (bucket, index, one.state.root / "source/trainer"):
            folder.mkdir(parents=True, exist_ok=True)
        if there:
            # What is here already is not fetched, whatever the index has.
            wheel(index, "vxneeded", "vxdeep")
            wheel(index, "vxdeep", "psutil")
            wheel(index, "psutil")
        source = one.state.root / "source"
        (source / "trainer/__init__.py").write_text("")
        (source / "trainer/task.py").write_text(task)
        needs = "['vxneeded>=1', 'psutil', 'other; python_version < \\'3\\'']"
        (source / "setup.py").write_text(
            "from setuptools import setup\n"
            f"setup(name='mine', packages=['trainer'], install_requires={needs})"
        )
        subprocess.run(
            [sys.executable, "setup.py", "-q", "sdist", "--formats=gztar", "-d", str(bucket)],
            cwd=source, check=True, timeout=120, capture_output=True,
        )  # fmt: skip
        (archive,) = bucket.iterdir()
        run_package(one, f"gs://staging/{archive.name}", {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index)})
        status = one.ended()
        said = one.output()
        assert "\nInstalling requirements of the job: vxneeded>=1\n" in said
        if there:
            assert status.outcome == "succeeded", one.output(stream="stderr")
            words = said.splitlines()[-2].split()
            assert words[:2] == ["vxneeded", "vxdeep"] and "site-packages" in words[2]
        else:
            assert status.outcome == "failed" and status.exit_code == 1
            error = one.output(stream="stderr")
            assert "No matching distribution found for vxneeded" in error
            assert "could not be installed: vxneeded>=1" in error and "PIP_INDEX_URL" in error


def run_package(one: Attempt, uri: str, env: dict[str, str] | None = None) -> None:
    job = CustomJobPb()
    spec = {
        "executorImageUri": "us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-17.py310:latest",
        "packageUris": [uri], "pythonModule": "trainer.task", "args": ["--n", "1"],
        "env": [{"name": name, "value": value} for name, value in (env or {}).items()],
    }  # fmt: skip
    pool = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1, "pythonPackageSpec": spec}
    json_format.ParseDict({"displayName": "x", "jobSpec": {"workerPoolSpecs": [pool]}}, job)
    config = EmulatorConfig.model_validate({})
    record = JobRecord("p", "us-central1", "1")
    one.runner.start(one.home, build_plan(job, record, 1, one.home, one.state, config, (20000, 20001)))


def test_the_reduction_server_s_stand_in_says_that_it_reduces_nothing() -> None:
    with attempt() as one:
        # The primary goes on until the stand-in has spoken.
        spoke = str(one.home.output("workerpool1-0", "stdout"))
        primary = (
            f"import pathlib, time\nsaid = pathlib.Path({spoke!r})\n"
            "while not (said.exists() and said.stat().st_size): time.sleep(0.02)"
        )
        one.run(primary, [sys.executable, "-m", "tui.emulator.runs.reduction_placeholder"])
        assert one.ended().outcome == "succeeded"
        (line,) = one.output("workerpool1-0").splitlines()
        said = json.loads(line)
        assert said["severity"] == "WARNING" and "reduces nothing" in said["message"]
        assert one.codes()["workerpool1-0"] == 0
