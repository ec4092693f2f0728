"""gcloud on the emulator: its requests as version 578 sends them, and gcloud itself where it is installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.wire.control import python, state_dir
from tests.wire.storage import Buckets, buckets
from tui.emulator.client import start_server, stop_server
from tui.emulator.paths import StateDir
from tui.emulator.rpc.rest_server import read_token
from tui.verbs.emulator.gcloud import gcloud_environment

BOUNDARY = "===============0123456789=="
CONTENT = b"workerPoolSpecs:\n- {}\r\n\n--not the boundary\n\x00\xff"
"""With line ends of both kinds, and what resembles a boundary."""


@pytest.fixture(scope="module")
def shared() -> Iterator[Buckets]:
    with buckets() as found:
        read_token(found.state)
        found.client.create_bucket("staging")
        yield found


def ask(place: Buckets, method: str, path: str, token: str | None = None, **kw: Any) -> requests.Response:
    """One request as gcloud sends it: to the address without the secret, with the token."""
    headers = {"Authorization": f"Bearer {token or read_token(place.state)}", **kw.pop("headers", {})}
    url = gcloud_environment(place.state, {"rest": "http://x", "buckets": place.url}, "p", "r")[
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"
    ]
    base = url.removesuffix("/storage/v1/")
    return requests.request(method, base + path, headers=headers, timeout=30, **kw)


def test_an_upload_in_two_parts_with_bare_line_feeds_and_a_boundary_in_single_quotes(shared: Buckets) -> None:
    body = (
        f"--{BOUNDARY}\nContent-Type: application/json\nMIME-Version: 1.0\n\n"
        f'{{"bucket": "staging", "name": "c.yaml"}}\n--{BOUNDARY}\n'
        "Content-Type: application/yaml\nMIME-Version: 1.0\nContent-Transfer-Encoding: binary\n\n"
    ).encode() + CONTENT
    made = ask(
        shared,
        "POST",
        "/upload/storage/v1/b/staging/o?alt=json&uploadType=multipart",
        data=body + f"\n--{BOUNDARY}--".encode(),
        headers={"Content-Type": f"multipart/related; boundary={BOUNDARY!r}"},
    )
    assert made.status_code == 200 and made.json()["contentType"] == "application/yaml"
    assert shared.file("staging/c.yaml").read_bytes() == CONTENT


def test_a_resumable_upload_below_the_path_that_gcloud_gives_it(shared: Buckets) -> None:
    begun = ask(
        shared,
        "POST",
        "/resumable/upload/storage/v1/b/staging/o?alt=json&uploadType=resumable",
        json={"bucket": "staging", "name": "big", "contentType": "application/octet-stream"},
        headers={"X-Upload-Content-Length": str(len(CONTENT))},
    )
    assert begun.status_code == 200
    done = requests.put(begun.headers["location"], data=CONTENT, timeout=30)
    assert done.status_code == 200 and shared.file("staging/big").read_bytes() == CONTENT


def test_the_storage_layout_of_a_bucket(shared: Buckets) -> None:
    found = ask(shared, "GET", "/storage/v1/b/staging/storageLayout?alt=json").json()
    assert found["kind"] == "storage#storageLayout" and found["hierarchicalNamespace"] == {"enabled": False}
    bucket = shared.client.get_bucket("staging")
    assert (found["location"], found["locationType"]) == (bucket.location, bucket.location_type)
    assert ask(shared, "GET", "/storage/v1/b/nope1/storageLayout").status_code == 404


@pytest.mark.parametrize("token", ["other", "", "x" * 43, "é"])
def test_buckets_refuse_a_wrong_token(shared: Buckets, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}".encode()}
    refused = ask(shared, "GET", "/storage/v1/b", headers=headers)
    assert refused.status_code == 401 and "lacks this emulator's secret" in refused.json()["error"]["message"]


def test_an_empty_token_file_admits_nobody() -> None:
    with buckets() as place:
        place.state.token.write_text("\n")
        refused = requests.get(
            f"{place.url.rpartition('/')[0]}/storage/v1/b", headers={"Authorization": "Bearer "}, timeout=30
        )
        assert refused.status_code == 401


# Seconds: an emulator, and six runs of gcloud, of one second each.
@pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not installed")
def test_gcloud_creates_lists_describes_and_cancels_jobs_and_copies_objects(tmp_path: Path) -> None:
    with state_dir() as state:
        info = start_server(state, rest="127.0.0.1:0")
        try:
            _drive(state, info, tmp_path)
        finally:
            stop_server(state)


def _drive(state: StateDir, info: dict[str, Any], folder: Path) -> None:
    env = {**os.environ, **gcloud_environment(state, info, "local", "us-central1")}

    def gcloud(*words: str) -> Any:
        done = subprocess.run(
            ["gcloud", *words, "--format=json", "--quiet"],
            env=env, capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        return json.loads(done.stdout) if done.stdout.strip() else None

    config = folder / "job.json"
    config.write_text(json.dumps({"workerPoolSpecs": [_pool("import time; time.sleep(600)")]}))
    made = gcloud("ai", "custom-jobs", "create", "--display-name=one", f"--config={config}")
    assert [job["name"] for job in gcloud("ai", "custom-jobs", "list")] == [made["name"]]
    gcloud("ai", "custom-jobs", "cancel", made["name"])
    assert gcloud("ai", "custom-jobs", "describe", made["name"])["state"] in {
        "JOB_STATE_CANCELLING",
        "JOB_STATE_CANCELLED",
    }
    gcloud("storage", "buckets", "create", "gs://staging")
    gcloud("storage", "cp", str(config), "gs://staging/job.json")
    assert (state.buckets / "staging" / "job.json").read_bytes() == config.read_bytes()


def _pool(code: str) -> dict[str, Any]:
    """A pool of the API's JSON form."""
    found = python(code)
    container = found["container_spec"]
    return {
        "machineSpec": {"machineType": found["machine_spec"]["machine_type"]},
        "replicaCount": found["replica_count"],
        "containerSpec": {"imageUri": container["image_uri"], "command": container["command"]},
    }
