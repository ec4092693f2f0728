"""Import and export over the real wire: what a job was asked for comes back as the same request."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.shell import Home, home

# One home for the whole module, so one worker for it.
pytestmark = pytest.mark.xdist_group("interchange")

PROFILE = """\
displayName: one step
description: Says hello.
labels: {team: nlp}
parameters: {word: hello}
jobSpec:
  workerPoolSpecs:
    - machineSpec: {machineType: n1-standard-4}
      replicaCount: 1
      containerSpec:
        imageUri: python
        command: [python3, -c, "print('${word}')"]
        env: [{name: HALF, value: "1.50"}, {name: HOME_DIR, value: "a $${HOME}"}]
  scheduling: {timeout: 90.500s, disableRetries: true}
"""


@pytest.fixture(scope="module")
def place() -> Iterator[Home]:
    with home() as found:
        started = found.run("emulator", "start", "--rest", "127.0.0.1:0", "--json")
        assert started.returncode == 0, started.stderr
        (found.root / "hello.yaml").write_text(PROFILE)
        yield found


def body(place: Home, reference: str) -> dict[str, Any]:
    """The request that a profile would send."""
    return dict(place.json("profiles", "show", reference)["body"])


def test_a_finished_job_becomes_the_profile_it_came_from(place: Home) -> None:
    job = place.json("launch", str(place.root / "hello.yaml"), "--yes", "--wait")
    made = place.json("profiles", "import", job["id"], "--name", "again")
    assert made["path"] == str(place.root / "c" / "vxtui" / "profiles" / "again.yaml")
    assert not [p for p in made["problems"] if p["severity"] == "error"]
    assert body(place, "again") == body(place, str(place.root / "hello.yaml"))
    assert place.json("profiles", "show", "again")["region"] == job["region"]


def test_the_command_of_a_job_is_that_of_its_profile(place: Home) -> None:
    source = str(place.root / "hello.yaml")
    job = place.json("launch", source, "--yes", "--wait")
    done = place.json("export", job["id"], "--as", "gcloud")
    profile = place.json("export", source, "--as", "gcloud", "--region", job["region"])
    without_notes = [
        [line for line in text.splitlines() if not line.startswith("# ")]
        for text in (done["text"], profile["text"])
    ]
    assert without_notes[0] == without_notes[1] and done["command"] is None
    refused = place.run("export", job["id"], "--as", "gcloud", "--set", "word=x")
    assert refused.returncode == 2 and "has no parameters" in refused.stderr
    nothing = place.run("export", "no-such-job", "--as", "rest")
    assert nothing.returncode == 3 and "no profile no-such-job" in nothing.stderr
    assert "job no-such-job does not exist" in nothing.stderr


def test_a_profile_is_never_written_over_without_being_told(place: Home) -> None:
    source = str(place.root / "hello.yaml")
    path = Path(place.json("profiles", "import", source, "--name", "kept")["path"])
    path.write_text("# mine\n" + path.read_text())
    assert place.json("profiles", "import", source, "--name", "kept", code=2)["error"]["code"] == "EXISTS"
    assert path.read_text().startswith("# mine\n")
    assert place.run("profiles", "import", source, "--name", "kept", "--force").returncode == 0
    assert path.read_text() == PROFILE
    assert [p.name for p in path.parent.iterdir() if p.name.startswith(".")] == []
    assert "must be a profile name" in place.run("profiles", "import", source, "--name", "../x").stderr


def test_every_export_comes_back_as_the_same_request(place: Home) -> None:
    source = str(place.root / "hello.yaml")
    wanted = body(place, source)
    done = place.run("profiles", "export", source, "--as", "gcloud", "--output", "config.yaml")
    assert done.returncode == 0 and "parameters are filled in" in done.stderr
    script = place.root / "create.sh"
    script.write_text(done.stdout)
    place.json("profiles", "import", str(script), "--name", "from-gcloud")
    assert body(place, "from-gcloud") == wanted
    whole = place.run("export", source, "--as", "gcloud").stdout
    (place.root / "whole.sh").write_text(whole)
    place.json("profiles", "import", str(place.root / "whole.sh"), "--name", "from-whole")
    assert body(place, "from-whole") == wanted
    config = place.json("profiles", "import", "config.yaml", "--name", "from-config")
    assert body(place, config["path"])["jobSpec"] == wanted["jobSpec"]
    rest = place.run("profiles", "export", source, "--as", "rest").stdout
    (place.root / "body.json").write_text(rest.split("<<'JSON'\n")[1].split("\nJSON")[0])
    place.json("profiles", "import", "body.json", "--name", "from-rest")
    assert body(place, "from-rest") == wanted


RUN = """
import sys, types
import google.auth.credentials
from google.cloud import aiplatform_v1
from google.cloud.aiplatform_v1.services.job_service.transports import JobServiceRestTransport
from google.cloud.aiplatform_v1.services.pipeline_service.transports import PipelineServiceRestTransport

class Token(google.auth.credentials.Credentials):
    def refresh(self, request): self.token = sys.argv[2]
    @property
    def expired(self): return False

scheme, host = sys.argv[1].split("://")
for path, service in (sys.argv[3], "Job"), (sys.argv[4], "Pipeline"):
    exported = types.ModuleType("exported")
    exec(open(path).read(), exported.__dict__)
    transport = globals()[service + "ServiceRestTransport"](host=host, url_scheme=scheme, credentials=Token())
    client = getattr(aiplatform_v1, service + "ServiceClient")(transport=transport)
    print(exported.create(client).name)
"""
PIPELINE = """\
displayName: a pipeline
labels: {team: nlp}
trainingPipeline:
  trainingTaskInputs:
    workerPoolSpecs:
      - machineSpec: {machineType: n1-standard-4}
        replicaCount: 1
        containerSpec: {imageUri: python, command: [python3, -c, "print('hello')"], args: ["1", a]}
"""


def exported(place: Home, source: str, form: str) -> str:
    return place.run("profiles", "export", source, "--as", form, "--region", "us-east1").stdout


# Seconds: a dozen commands, each a process of its own, and the import of a client.
def test_the_exported_programs_and_the_curl_calls_create_the_jobs(place: Home) -> None:
    status = place.json("emulator", "status")
    token = (place.state / "token").read_text().strip()
    (place.root / "pipeline.yaml").write_text(PIPELINE)
    sources = [str(place.root / name) for name in ("hello.yaml", "pipeline.yaml")]
    programs = [place.root / "create.py", place.root / "create_pipeline.py"]
    for source, program in zip(sources, programs, strict=True):
        program.write_text(exported(place, source, "python"))
    done = subprocess.run(
        [sys.executable, "-c", RUN, status["rest"], token, *map(str, programs)],
        env=place.env, text=True, capture_output=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    for source, created in zip(sources, done.stdout.split(), strict=True):
        # The script as it is, with another host and gcloud's token given by hand.
        script = exported(place, source, "rest")
        script = script.replace("https://us-east1-aiplatform.googleapis.com", status["rest"])
        script = script.replace("$(gcloud auth print-access-token)", token)
        made = subprocess.run(["sh", "-c", script], text=True, capture_output=True, timeout=60, check=True)
        wanted = body(place, source)
        for name in (created, json.loads(made.stdout)["name"]):
            assert "/locations/us-east1/" in name
            place.json("profiles", "import", name, "--name", "back", "--force")
            assert body(place, "back") == wanted
