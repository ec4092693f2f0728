"""A verb that is interrupted while its operation is under way: exit code, and the audit journal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HANGING = """
import asyncio, signal, sys
# A shell starts its background jobs with SIGINT ignored, and the tests may be one of them.
signal.signal(signal.SIGINT, signal.default_int_handler)
import click
from tui.verbs.run import Run, value_of, verb

@click.command()
@verb("profile.import")
async def hang(run: Run) -> None:
    async def act() -> None:
        print("acting", flush=True)
        await asyncio.Event().wait()
    runner = run.profile_operations()._runner
    value_of(await runner.run("profile.import", "target", act, lambda _: "done"))

sys.exit(hang.main([], standalone_mode=False))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_that_its_effect_is_not_known(tmp_path: Path, number: signal.Signals) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VXTUI_")}
    env = kept | {"VXTUI_STATE_DIR": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "c")}
    with subprocess.Popen(
        [sys.executable, "-c", HANGING], env=env, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "acting\n"
        process.send_signal(number)
        assert process.wait(60) == 130
    asked, ended = (json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines())
    assert (asked["result"], ended["result"], ended["code"]) == ("asked", "failed", "INTERRUPTED")
    assert ended["surface"] == "verb" and ended["context"] == "local" and ended["target"] == "target"
