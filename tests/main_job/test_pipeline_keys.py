"""A failed pipeline by keys alone, in a real pty: why it failed, each attempt's log, and run again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.shell import VXTUI, Home, home
from tests.terminal import Terminal
from tests.wire.control import PARENT, connect
from tests.wire.pipelines import Pipelines, above, container, leaf, spec, task
from tests.wire.pipelines_support import SAY, SAYS, say

# One emulator for both sizes, so one worker for them.
pytestmark = pytest.mark.xdist_group("pipeline keys")
_, PROJECT, _, REGION = PARENT.split("/")


def words(text: str) -> str:
    """The screen's text on one line: a dialog breaks its lines where the terminal ends."""
    return " ".join(text.replace("▌", " ").split())


@pytest.fixture(scope="module")
def place() -> Any:
    with home() as found:
        config = f"contexts:\n  - {{name: here, kind: local, project: {PROJECT}, regions: [{REGION}]}}\n"
        (found.root / "c" / "vxtui").mkdir()
        (found.root / "c" / "vxtui" / "config.yaml").write_text(f"context: here\n{config}")
        assert found.run("emulator", "start", "--json").returncode == 0
        yield found


@pytest.fixture
async def pipelines(place: Home) -> AsyncIterator[Pipelines]:
    async with connect(f"unix:{place.state / 'emulator.sock'}") as clients:
        yield Pipelines(clients)


def nightly(folder: Path, word: str) -> dict[str, Any]:
    """Tasks of which one fails, twice, until a file is there; `word` keeps two pipelines' caches apart."""
    loop = spec({"hello": say(above("item"))}, {}, {})["root"]
    body = {**loop, "inputDefinitions": {"parameters": {"item": {"parameterType": "STRING"}}}}
    check = (
        f"n=$(cat {folder}/count 2>/dev/null || echo 0); n=$((n+1)); echo $n > {folder}/count; "
        f'echo "look $n for the data of $0"; test -e {folder}/data'
    )
    items = {"itemInput": "item", "items": {"raw": f'["{word}-p", "{word}-q"]'}}
    return spec(
        {
            "prepare": say(word, title="prepare"),
            "each": task("body", after=("prepare",), title="each", parameterIterator=items),
            "check": task(
                "check", after=("prepare",), title="check", inputs={"text": word},
                retryPolicy={"maxRetryCount": 1, "backoffDuration": "0s"},
            ),
            "report": say(f"the report of {word}", after=("each", "check"), title="report"),
        },
        {"say": SAYS, "body": body, "check": leaf("check", {"text": "STRING"})},
        {"say": SAY, "check": container(check, "{{$.inputs.parameters['text']}}")},
    )  # fmt: skip


# Seconds: the console is started, and a dozen jobs run.
@pytest.mark.parametrize(
    "size", [(80, 24), pytest.param((120, 40), marks=pytest.mark.slow)], ids=["small", "usual"]
)
async def test_a_failed_task_is_found_understood_and_run_again(
    place: Home, pipelines: Pipelines, size: tuple[int, int]
) -> None:
    name = f"nightly-{size[0]}"
    folder = place.root / name
    folder.mkdir()
    job = await pipelines.run(nightly(folder, name), id=name, display_name=name)
    assert job.state.name == "PIPELINE_STATE_FAILED"
    screen = Terminal([VXTUI], place.env, *size)

    async def keys(*pressed: str, until: str) -> None:
        """Press keys, and wait for a text on the screen."""
        # The clients are on the loop of this test; the terminal blocks.
        await asyncio.to_thread(screen.press, *pressed)
        await asyncio.to_thread(screen.wait, lambda text: until in words(text))

    try:
        await asyncio.to_thread(screen.wait, f"▸ {name}")
        await keys("g", "enter", until="Overview")
        await keys("]", until="of 5 tasks ended")
        # The failed one, why, and the log of each of its attempts.
        await keys("e", until="exited with a non-zero status of 1")
        await keys("L", until=f"look 2 for the data of {name}")
        await keys("esc", until="of 5 tasks ended")
        await keys("t", until="attempt 1 failed")
        await keys("/", "1 failed", "enter", until="Task 1 line")
        await keys("L", until=f"look 1 for the data of {name}")
        await keys("esc", until="Task 1 line")
        await keys("esc", until="attempt 2 failed")
        await keys("esc", until="of 5 tasks ended")
        # The same in the drawing: along the lines to the loop, and to the log of one of its tasks.
        await keys("v", until="[each]")
        await keys("h", until="prepare ✓ succeeded")
        await keys("l", until="check ✗ failed")
        await keys("k", "j", until="2/2")
        if "check ✗ failed" in words(screen.text):
            await keys("k", until="each ✓ succeeded")
        await keys("enter", until="all tasks ▸ each")
        await keys("j", "enter", until="all tasks ▸ each ▸ each-1")
        await keys("L", until=f"said {name}-q")
        await keys("esc", until="all tasks ▸ each ▸ each-1")
        await keys("esc", until="all tasks ▸ each esc")
        await keys("esc", until="[each]")
        await keys("v", until="TASK")
        # What it lacked is there now: only that task and the one behind it run again.
        (folder / "data").write_text("here")
        await keys("r", until=f"Run {name} again?")
        # Its new run, which opens at its tasks.
        await keys("y", until="3 cached")
        await keys("g", until="5 of 5 tasks ended 3 cached")
        await asyncio.to_thread(screen.wait, lambda text: f"{name} ✓ succeeded" in words(text))
        assert words(screen.text).count("✓ cached") >= 3, screen.text
        await keys("L", until="This task was cached")
        await asyncio.to_thread(screen.press, "ctrl+q")
        assert await asyncio.to_thread(screen.wait_exit) == 0
    finally:
        screen.close()
    made = [each async for each in await pipelines.client.list_pipeline_jobs(parent=PARENT)]
    states = [each.state.name for each in made if each.display_name == name]
    assert states == ["PIPELINE_STATE_SUCCEEDED", "PIPELINE_STATE_FAILED"]
    rows = place.json("compare", made[1].name.rpartition("/")[2], made[0].name.rpartition("/")[2])["rows"]
    found = {f"{row['part']} {row['name']}": (row["a"], row["b"]) for row in rows}
    assert found["result state"] == ("failed", "succeeded")
    assert [value["state"] for value in found["task check"]] == ["failed", "succeeded"]
    assert [value["cached"] for value in found["task prepare"]] == [False, True]
    assert found["result report.out"] == (None, f"the report of {name}")
