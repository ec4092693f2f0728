"""`vxtui profiles validate`: what it prints, its exit codes, and what --fix writes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tui.config.paths import shipped
from tui.verbs.profiles.group import profiles

WRONG = """\
# the run of spring
displayName: x   # keep
description: Of last year.
jobSpec:
  workerPoolSpecs:
    - machineSpec: {machineType: a3-highgpu-8g, acceleratorType: NVIDIA_H100, acceleratorCount: 8}
      replicaCount: 2
      containerSpec: {imageUri: us-docker.pkg.dev/p/r/i:t}   # ours
  scheduling: {strategy: PREEMPTIBLE}
"""
GOOD = """\
displayName: x
jobSpec:
  workerPoolSpecs:
    - machineSpec: {machineType: n1-standard-4}
      replicaCount: 1
      containerSpec: {imageUri: us-docker.pkg.dev/p/r/i:t}
"""
KEYS = ["id", "severity", "path", "sentence", "fix", "source", "file", "line", "column", "fixable"]


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("VXTUI_STATE_DIR", str(tmp_path / "state"))


def validate(*args: str | Path) -> Result:
    return CliRunner().invoke(profiles, ["validate", *map(str, args)])


def problems(*args: str | Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(validate(*args, "--json").stdout)["problems"]
    return found


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_problem_has_its_place_its_rule_and_its_fix(tmp_path: Path) -> None:
    path = written(tmp_path / "f.yaml", WRONG)
    result = validate(path)
    assert result.exit_code == 2 and "\x1b" not in result.stdout
    first = result.stdout.splitlines()[0]
    assert first.startswith(f"{path}:6:49: error misnomer.accelerator-name: NVIDIA_H100 must be")
    assert first.endswith("Write NVIDIA_H100_80GB.")
    assert "3 errors in 1 file; --fix fixes 3 of them." in result.stderr


def test_the_documented_shape(tmp_path: Path) -> None:
    path = written(tmp_path / "f.yaml", WRONG)
    result = validate(path, "--json")
    assert result.exit_code == 2
    found = json.loads(result.stdout)["problems"]
    assert {p["id"] for p in found} == {"misnomer.accelerator-name", "misnomer.strategy", "shape.primary"}
    assert all(list(p) == KEYS and all(p[k] for k in KEYS) for p in found)
    assert found[0]["path"] == "jobSpec.workerPoolSpecs[0].machineSpec.acceleratorType"


def test_ready_made_profiles_are_good_by_name_all_at_once() -> None:
    names = sorted(p.stem for p in shipped("profiles").glob("*.yaml"))
    result = validate(*names, "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"schema": 1, "problems": []})
    assert f"no problems in {len(names)} files." in validate(*names).stderr


def test_a_warning_alone_exits_0(tmp_path: Path) -> None:
    path = written(tmp_path / "f.yaml", GOOD + "  scheduling: {strategy: SPOT}\n")
    result = validate(path)
    assert result.exit_code == 0 and " warning spot.checkpoint: " in result.stdout


def test_parameters_and_the_region_are_those_of_the_command_line(tmp_path: Path) -> None:
    path = written(
        tmp_path / "f.yaml",
        GOOD.replace("jobSpec", "parameters: {m: n1-standard-4}\njobSpec").replace(
            "Type: n1-standard-4", "Type: '${m}'"
        ),
    )
    assert problems(path) == []
    assert [p["id"] for p in problems(path, "--set", "m=n1-standard-3")] == ["machine.type"]
    assert [p["id"] for p in problems(path, "--set", "n=1")] == ["profile.parameter"]
    assert [p["id"] for p in problems(path, "--region", "us-centrl1")] == ["region.unknown"]
    assert [p["id"] for p in problems("l4-1node", "--region", "europe-west6")] == ["region.accelerator"]
    assert problems("l4-1node", "--region", "europe-west6", "--context", "local") == []
    assert validate(path, "--set", "m").exit_code == 2


def test_fix_writes_what_needs_no_decision_and_keeps_comments(tmp_path: Path) -> None:
    path = written(tmp_path / "f.yaml", WRONG)
    path.chmod(0o640)
    link = tmp_path / "link.yaml"
    link.symlink_to(path)
    result = validate(link, "--fix")
    assert result.exit_code == 0, result.output
    assert "-  scheduling: {strategy: PREEMPTIBLE}" in result.stdout
    assert "+  scheduling: {strategy: SPOT}" in result.stdout
    text = path.read_text(encoding="utf-8")
    assert "# the run of spring" in text and "# keep" in text and "# ours" in text
    assert "NVIDIA_H100_80GB" in text and link.is_symlink() and path.stat().st_mode & 0o777 == 0o640
    assert [p["id"] for p in problems(path)] == ["spot.checkpoint"]
    assert validate(path, "--fix").stdout.count("\n") == 1
    assert path.read_text(encoding="utf-8") == text


def test_what_cannot_be_written_is_refused_and_stays(tmp_path: Path) -> None:
    command = written(
        tmp_path / "c.sh",
        "gcloud ai custom-jobs create --region=us-central1 --display-name=x --worker-pool-spec="
        "machine-type=n1-standard-2,replica-count=1,container-image-uri=us-docker.pkg.dev/p/r/i:t\n",
    )
    (found,) = problems(command)
    assert found["id"] == "machine.type" and found["line"] is None and found["file"] == str(command)
    place = "jobSpec.workerPoolSpecs[0].machineSpec.machineType"
    assert f"{command}: error machine.type: {place}: n1-standard-2 must be" in validate(command).stdout
    before = command.read_text(encoding="utf-8")
    result = validate(command, "--fix")
    assert result.exit_code == 2 and "profiles import" in result.stderr
    assert command.read_text(encoding="utf-8") == before

    ready = shipped("profiles") / "l4-1node.yaml"
    same = ready.read_bytes()
    result = validate("l4-1node", "--fix", "--set", "strategy=SPOT")
    assert result.exit_code == 0 and ready.read_bytes() == same, (
        "a warning without a mend is no reason to refuse"
    )
    result = validate("l4-1node", "--fix", "--region", "us-central1-a")
    assert ready.read_bytes() == same and result.exit_code == 2 and "ready-made" in result.stderr


def test_files_that_are_no_profiles_are_told_with_a_place(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_bytes(b"displayName: \xff\n")
    (found,) = problems(tmp_path / "b.yaml")
    assert (found["id"], found["line"], found["column"]) == ("profile.syntax", 1, 14)
    assert problems(written(tmp_path / "e.yaml", ""))[0]["id"] == "profile.syntax"
    assert validate("nope").exit_code == 3 and validate(tmp_path / "nope.yaml").exit_code == 3
    body = written(tmp_path / "r.yaml", GOOD)
    assert [p["id"] for p in problems(body)] == ["misnomer.gcloud-wrapper"]
    assert validate(body).exit_code == 0


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("slip.yaml", GOOD.replace("machineType", "machineTyp"), True),
        ("syntax.yaml", "displayName: [", False),
        ("bodies.yaml", GOOD + "trainingPipeline: {trainingTaskInputs: {}}\n", False),
        ("flag.sh", "gcloud ai custom-jobs create --bogus", False),
    ],
)
def test_import_offers_the_automatic_fixes_where_there_is_one(
    tmp_path: Path, name: str, text: str, hint: bool
) -> None:
    result = CliRunner().invoke(profiles, ["import", str(written(tmp_path / name, text))])
    assert result.exit_code == 2 and "Nothing was written." in result.stderr
    assert ("--fix" in result.stderr) is hint
    if hint:
        assert validate(tmp_path / name, "--fix").exit_code == 0


def test_colours_are_for_terminals_only(tmp_path: Path) -> None:
    path = written(tmp_path / "f.yaml", WRONG)
    main, other = pty.openpty()
    try:
        process = subprocess.run(
            [sys.executable, "-m", "tui.cli", "profiles", "validate", str(path)],
            check=False, stdout=other, stderr=subprocess.DEVNULL, timeout=120,
        )  # fmt: skip
        os.close(other)
        out = os.read(main, 65536).decode()
    finally:
        os.close(main)
    assert process.returncode == 2 and "\x1b[31merror\x1b[0m misnomer.accelerator-name" in out
