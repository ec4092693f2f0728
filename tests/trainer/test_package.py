"""The trainer as a Python package: reproducible bytes, installed alone, run as a job."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path

import pytest
from google.protobuf import json_format

from tests.wire.attempts import attempt
from tests.wire.storage import buckets
from trainer import package
from tui.emulator.config import EmulatorConfig
from tui.emulator.interfaces import CustomJobPb, JobRecord
from tui.emulator.runs.environment import build_plan

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
OFFLINE = ["--quiet", "--no-index", "--no-deps", "--no-build-isolation"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    assert package.main([str(folder)]) == 0
    (path,) = folder.iterdir()
    return path


def test_the_same_code_makes_the_same_bytes(made: Path) -> None:
    assert made.name == f"vxtui_trainer-{package.version()}.tar.gz"
    assert made.read_bytes() == package.archive()
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(made.read_bytes()))) as archive:
        names = archive.getnames()
        assert {entry.mtime for entry in archive} == {946_684_800}
    top = made.name.removesuffix(".tar.gz")
    code = {f"{top}/trainer/{p.relative_to(package.HERE)}" for p in package.HERE.rglob("*.py")}
    assert set(names) == code | {f"{top}/setup.py", f"{top}/PKG-INFO"}


def test_it_requires_what_the_checkout_requires() -> None:
    found = package.requirements()
    assert any(line.startswith("torch>=") for line in found["trainer"])
    assert any(line.startswith("transformers>=") for line in found["vision"])
    namespace: dict[str, object] = {"setup": lambda **kw: namespace.update(kw)}
    exec(package.setup_py().replace("from setuptools import setup", ""), namespace)
    assert namespace["install_requires"] == found["trainer"]
    assert {"trainer", "trainer.checkpoint", "trainer.strategy"} <= set(namespace["packages"])  # type: ignore[call-overload]


def test_it_runs_in_an_environment_without_vxtui(made: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env/bin/python"
    # Its tools and its libraries are this environment's; a folder that is added so brings no .pth files.
    (folder,) = (tmp_path / "env/lib").glob("python*/site-packages")
    (folder / "shared.pth").write_text(sysconfig.get_path("purelib"))
    home = tmp_path / "home"
    home.mkdir()
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [*PIP, "--python", str(python), "install", *OFFLINE, str(made)]
    subprocess.run(command, cwd=home, env=env, check=True, timeout=120)

    def run(*words: str) -> str:
        done = subprocess.run(
            [python, *words], cwd=home, env=env, check=True, timeout=60, capture_output=True, text=True
        )
        return done.stdout

    assert run("-c", "import trainer; print(trainer.__file__)").startswith(str(folder))
    shown = json.loads(run("-m", "trainer.task", "--print-config", "--steps=7"))
    assert shown["steps"] == 7 and shown["parallel"]["strategy"] == "ddp"
    # It can be packed again from there, into what it was made from.
    run("-m", "trainer.package", "again")
    assert (home / "again" / made.name).exists()


def test_a_python_package_job_trains_with_it(made: Path) -> None:
    with attempt() as one:
        (one.state.buckets / "staging").mkdir(parents=True)
        (one.state.buckets / "staging" / made.name).write_bytes(made.read_bytes())
        spec = {
            "executorImageUri": "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310:latest",
            "packageUris": [f"gs://staging/{made.name}"], "pythonModule": "trainer.task",
            "args": ["--steps=3", "--batch=2", "--device=cpu", "--checkpoint-every=2"],
        }  # fmt: skip
        pool = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1, "pythonPackageSpec": spec}
        job = CustomJobPb()
        json_format.ParseDict({"displayName": "x", "jobSpec": {"workerPoolSpecs": [pool]}}, job)
        config, record = EmulatorConfig.model_validate({}), JobRecord("p", "us-central1", "1")
        one.runner.start(one.home, build_plan(job, record, 1, one.home, one.state, config, (20000, 20001)))
        status = one.ended(120)
        assert status.outcome == "succeeded", one.output(stream="stderr")
        assert '"step": 3' in one.output() and "done: 3 steps" in one.output()


def test_one_command_uploads_it_to_a_bucket(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with buckets() as cloud:
        cloud.client.create_bucket("mine")
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", cloud.url)
        assert package.main(["gs://mine/packages/"]) == 0
        (blob,) = cloud.client.list_blobs("mine")
        assert capsys.readouterr().out == f"gs://mine/{blob.name}\n"
        assert blob.name.startswith("packages/vxtui_trainer-")
        assert blob.download_as_bytes() == package.archive()
        assert package.main(["gs://nobody/packages"]) == 2
        assert "can't be copied to gs://nobody/packages" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert package.main([str(tmp_path / "file")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("the package can't be copied to") and len(said.splitlines()) == 1
    with pytest.raises(SystemExit) as error:
        package.main(["gs://"])
    assert error.value.code == 2 and "gs://BUCKET/FOLDER" in capsys.readouterr().err
