"""The canary of the README, line by line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shell import home

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "profiles" / "examples" / "canary" / "upload.py"


# Long: the SDK is imported, two model servers are started, and each verb is a process.
@pytest.mark.slow
def test_the_example_is_uploaded_and_its_second_version_is_deployed_and_rolled_back() -> None:
    lines = [
        line.split("#")[0].split()[1:]
        for line in (ROOT / "README.md").read_text().partition("## A canary")[2].splitlines()
        if line.startswith("    vxtui ")
    ][:5]
    with home() as shell:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            [sys.executable, EXAMPLE],
            check=False,
            env={**shell.env, "PATH": path},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0 and "['version 1']" in done.stdout, done.stderr
        found = [
            shell.run(*line, *(["--yes"] if "--deploy" in line or "--roll-back" in line else []))
            for line in lines
        ]
        assert [each.returncode for each in found] == [0] * 5, [each.stderr for each in found]
        versions, deployed, _, logs, back = [each.stdout for each in found]
        assert versions.count("answers") == 2 and " 10 %" in deployed and "version 2 is ready" in logs
        assert " 0 %" in back
