"""A Python-package job, really installed and run, without a network."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from google.protobuf import json_format

from tests.wire.attempts import Attempt, attempt
from tui.emulator.config import EmulatorConfig
from tui.emulator.environment import build_plan
from tui.emulator.interfaces import CustomJobPb, JobRecord

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
        status = one.ended(120)
        if broken:
            assert status.outcome == "failed" and status.exit_code == 1
            assert "could not be installed" in one.output(stream="stderr")
        else:
            # Its module is called like the trainer that comes with the emulator, and wins.
            assert status.outcome == "succeeded", one.output(stream="stderr")
            assert one.output() == "installed ['--n', '1'] True\n"


def run_package(one: Attempt, uri: str) -> None:
    job = CustomJobPb()
    spec = {
        "executorImageUri": "us-docker.pkg.dev/vertex-ai/training/tf-cpu.2-17.py310:latest",
        "packageUris": [uri], "pythonModule": "trainer.task", "args": ["--n", "1"],
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
        one.run(primary, [sys.executable, "-m", "tui.emulator.reduction_placeholder"])
        assert one.ended().outcome == "succeeded"
        (line,) = one.output("workerpool1-0").splitlines()
        said = json.loads(line)
        assert said["severity"] == "WARNING" and "reduces nothing" in said["message"]
        assert one.codes()["workerpool1-0"] == 0
