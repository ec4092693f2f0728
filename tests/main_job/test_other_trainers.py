"""Jobs whose scripts know nothing of vxtui, by verbs: `describe --json` has their step, total and loss."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest
import yaml

from tests.shell import Home, home

# One home for the whole module, so one worker for it.
pytestmark = pytest.mark.xdist_group("other trainers")
TQDM = r"""
import sys
for step in range(1, 51):
    counts = f"{step}/50 [00:10<01:11,  6.10it/s, loss={3 - step / 50:.2f}]"
    sys.stderr.write(f"\r{2 * step:3d}%|####      | {counts}")
sys.stderr.write("\n")
"""
KEY_VALUE = """
for step in range(1, 51):
    print(f"step {step}/50 | loss {3 - step / 50:.2f} | lr 3.0e-04 | 41.8k tok/s", flush=True)
"""
OWN = """
for step in range(1, 51):
    print(f"upd {step} of 50: objective {3 - step / 50:.2f}", flush=True)
"""
SCRIPTS = {"tqdm": TQDM, "key-value": KEY_VALUE, "own": OWN}
SAID = {
    "tqdm": ("tqdm", {"value": 6.1, "unit": "steps/s"}),
    "key-value": ("key=value", {"value": 41_800, "unit": "tokens/s"}),
    "own": ("pattern", None),
}
PATTERN = r"upd (?P<step>\d+) of (?P<total>\d+): objective (?P<loss>[\d.]+)"


@pytest.fixture(scope="module")
def place() -> Iterator[Home]:
    with home() as found:
        folder = found.root / "c" / "vxtui" / "profiles"
        folder.mkdir(parents=True)
        for name, code in SCRIPTS.items():
            pool = {
                "machineSpec": {"machineType": "n1-standard-4"},
                "replicaCount": 1,
                "containerSpec": {"imageUri": "python:3.11", "command": [sys.executable, "-c", code]},
            }
            profile = {"displayName": name, "jobSpec": {"workerPoolSpecs": [pool]}}
            if name == "own":
                profile["progress"] = {"pattern": PATTERN}
            (folder / f"{name}.yaml").write_text(yaml.safe_dump(profile))
        yield found


# Several seconds: an emulator, three jobs and six starts of `vxtui`.
def test_progress_of_anybodys_job_is_described(place: Home) -> None:
    launches = [place.popen("launch", name, "--yes", "--wait", "--json") for name in SCRIPTS]
    ended = {}
    for launched in launches:
        out, err = launched.communicate(timeout=200)
        assert launched.returncode == 0, out + err
        ended[json.loads(out)["display_name"]] = json.loads(out)
    assert set(ended) == set(SCRIPTS)
    for name in SCRIPTS:
        progress = place.json("describe", ended[name]["id"])["progress"]
        assert (progress["step"], progress["total_steps"]) == (50, 50), name
        assert progress["loss"] == {"first": pytest.approx(2.98), "last": 2.0}, name
        assert (progress["dialect"], progress["speed"]) == SAID[name]
