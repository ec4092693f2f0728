"""Autopackaging by the command line: a folder becomes a package in the bucket, and a job that runs it."""

from __future__ import annotations

import json
import tarfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shell import Home, home
from tests.waiting import LIMIT, wait_for

pytestmark = pytest.mark.xdist_group("packaging")

PROFILE = """\
displayName: packed
package:
  path: ./my-task
  script: task.py
  executorImage: us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310:latest
jobSpec:
  workerPoolSpecs:
  - machineSpec: {machineType: n1-standard-4}
    replicaCount: 1
    pythonPackageSpec: {args: ["--steps", "3 4"]}
  - machineSpec: {machineType: n1-standard-4}
    replicaCount: 1
"""
TASK = """
import os, sys, time, psutil
from google.cloud import storage
from lib.helper import WORD

print(WORD, sys.argv[1:], open("data.txt").read().strip(), flush=True)
bucket = storage.Client().bucket("vxtui-staging")
other = bucket.blob("out/other-has-spoken")
if os.environ["CLOUD_ML_JOB_ID"] and "workerpool0" in os.environ["HOSTNAME"]:
    bucket.blob("out/result.bin", chunk_size=262144).upload_from_string(b"r" * 700_000)
    # The job ends with the primary, which stops the other: it must have spoken by then.
    while not other.exists():
        time.sleep(0.05)
else:
    other.upload_from_string(b"")
"""


@pytest.fixture(scope="module")
def place() -> Iterator[Home]:
    with home() as found:
        folder = found.root / "profiles/my-task"
        (folder / "lib").mkdir(parents=True)
        (folder / "task.py").write_text(textwrap.dedent(TASK))
        (folder / "lib/helper.py").write_text("WORD = 'the helper says'\n")
        (folder / "data.txt").write_text("of the data\n")
        (folder / "requirements.txt").write_text("psutil>=5  # is here\n")
        (folder / "__pycache__").mkdir()
        (folder / "__pycache__/x.pyc").write_text("")
        (found.root / "profiles/packed.yaml").write_text(PROFILE)
        yield found


def objects(place: Home) -> list[Path]:
    root = place.state / "buckets/vxtui-staging"
    return sorted(p for p in root.rglob("*") if p.is_file())


# Seconds: an emulator starts, and pip installs a package beside each of two replicas.
def test_a_folder_with_a_script_runs_as_a_package_from_the_bucket(place: Home) -> None:
    profile = str(place.root / "profiles/packed.yaml")
    shown = place.json("launch", profile, "--dry-run")
    assert objects(place) == [], "a dry run sends nothing"
    done = place.run("launch", profile, "--yes", "--wait", "--json")
    assert done.returncode == 0, done.stderr
    job = json.loads(done.stdout)
    assert job["state"] == "SUCCEEDED"
    assert "source distribution" in done.stderr and "100 %" in done.stderr and "psutil>=5" in done.stderr

    uri = find(shown, "packageUris")[0]
    assert uri.startswith("gs://vxtui-staging/vxtui-packages/my-task/") and uri.endswith(".tar.gz")
    archive = place.state / "buckets" / uri.removeprefix("gs://")
    assert archive in objects(place)
    with tarfile.open(archive) as packed:
        names = {n.partition("/source/")[2] for n in packed.getnames() if "/source/" in n}
    assert names == {"task.py", "lib/helper.py", "data.txt", "requirements.txt"}
    result = place.state / "buckets/vxtui-staging/out/result.bin"
    assert result.read_bytes() == b"r" * 700_000, "the job's own upload over the bucket server"

    entries = place.run("logs", job["name"].rpartition("/")[2], "--json").stdout
    said = {
        e["replica"]: e["message"] for e in map(json.loads, entries.splitlines()) if "helper" in e["message"]
    }
    assert said == {
        "workerpool0-0": "the helper says ['--steps', '3 4'] of the data",
        "workerpool1-0": "the helper says [] of the data",
    }


def find(value: object, key: str) -> list[str]:
    """The list at `key`, wherever it is."""
    if isinstance(value, dict):
        if key in value:
            return list(value[key])
        value = list(value.values())
    for inner in value if isinstance(value, list) else []:
        if found := find(inner, key):
            return found
    return []


# Seconds: seven commands, each a process of its own.
def test_the_same_folder_is_sent_once_and_a_changed_one_anew(place: Home) -> None:
    profile = str(place.root / "profiles/packed.yaml")
    before = len(objects(place))
    again = place.run("launch", profile, "--yes")
    assert again.returncode == 0 and "is already uploaded" in again.stderr, again.stderr
    assert len(objects(place)) == before
    # Nothing half-sent, and no job, when the bucket fails.
    (place.root / "profiles/my-task/data.txt").write_text("changed\n")
    jobs = len(place.jobs())
    place.json("emulator", "fault", "buckets", "--denied")
    refused = place.run("launch", profile, "--yes", "--json")
    assert refused.returncode == 4, refused.stderr
    assert "Permission" in refused.stdout + refused.stderr
    place.json("emulator", "fault", "buckets")
    assert len(objects(place)) == before and len(place.jobs()) == jobs


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("script: task.py", "script: other.py"), "script other.py is not in"),
        (("script: task.py", "script: ../task.py"), "package.script: ../task.py must be inside the folder"),
        (("./my-task", "./nowhere"), "does not exist"),
        (("script: task.py", "script: task.py\n  colour: red"), "package.colour: the field does not exist"),
    ],
)
def test_what_can_t_be_packed_is_refused_before_anything_is_sent(
    place: Home, change: tuple[str, str], words: str
) -> None:
    profile = place.root / "profiles/wrong.yaml"
    profile.write_text(PROFILE.replace(*change))
    done = place.run("launch", str(profile), "--dry-run")
    assert done.returncode == 2 and words in done.stderr, done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupted_upload_sends_no_job(place: Home) -> None:
    profile = str(place.root / "profiles/packed.yaml")
    (place.root / "profiles/my-task/data.txt").write_text("interrupted\n")
    before, jobs = len(objects(place)), len(place.jobs())
    place.json("emulator", "fault", "buckets", "--delay", "5")
    launch = place.popen("launch", profile, "--yes")
    assert launch.stderr is not None
    wait_for(lambda: "requires" in launch.stderr.readline(), "the launch to begin")
    launch.terminate()
    launch.communicate(timeout=LIMIT)
    assert launch.returncode == 130
    place.json("emulator", "fault", "buckets")
    assert len(objects(place)) == before and len(place.jobs()) == jobs
