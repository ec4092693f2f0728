"""A version takes over an endpoint by keys alone, in a real pty: deploy, watch, move on, roll back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import grpc
import pytest
from google.api_core import exceptions

from tests.shell import VXTUI, Home, home
from tests.terminal import Terminal
from tests.waiting import until as eventually
from tests.wire.control import PARENT
from tests.wire.serving import SERVER, Serving

pytestmark = pytest.mark.xdist_group("endpoints")
_, PROJECT, _, REGION = PARENT.split("/")
BROKEN = SERVER.replace("asked = json.loads(body)", "return self.reply(503, b'overloaded')")


def words(text: str) -> str:
    """The screen's text on one line: a dialog breaks its lines where the terminal ends."""
    return " ".join(text.replace("▌", " ").split())


@pytest.fixture
async def place() -> AsyncIterator[tuple[Home, Serving]]:
    with home() as found:
        config = f"contexts:\n  - {{name: here, kind: local, project: {PROJECT}, regions: [{REGION}]}}\n"
        (found.root / "c" / "vxtui").mkdir()
        (found.root / "c" / "vxtui" / "config.yaml").write_text(f"context: here\n{config}")
        assert found.run("emulator", "start", "--json").returncode == 0
        async with grpc.aio.insecure_channel(f"unix:{found.state / 'emulator.sock'}") as channel:
            yield found, Serving(channel)


# Seconds: the console and two model servers are started.
async def test_a_canary_takes_over_and_is_rolled_back(place: tuple[Home, Serving]) -> None:
    shell, serving = place
    first = await serving.upload(name="answers", model_id="answers")
    model = first.partition("@")[0]
    await serving.upload(name="answers", parent_model=model, version_aliases=["canary"], code=BROKEN)
    endpoint = await serving.endpoint(display_name="front-door")
    old = await serving.deploy(endpoint, first, {"0": 100})
    screen = Terminal([VXTUI], shell.env)

    async def keys(*pressed: str, until: str) -> str:
        """Press keys, and wait for a text on the screen."""
        # The emulator and the clients are on the loop of this test; the terminal blocks.
        await asyncio.to_thread(screen.press, *pressed)
        await asyncio.to_thread(screen.wait, lambda text: until in words(text))
        return screen.text

    try:
        await asyncio.to_thread(screen.wait, "No jobs here yet")
        await keys("8", until="100 %")
        await keys("a", until="which version?")
        await keys("canary", "enter", until="Machine for answers version 2")
        await keys("enter", until="Percent of the requests")
        await keys("enter", until="with 10 % of the requests?")
        await keys("y", until="90 % to version 1, 10 % to version 2")
        split = await serving.split(endpoint)
        (new,) = split.keys() - {old}
        assert split == {old: 90, new: 10}
        for _ in range(40):
            with suppress(exceptions.ServiceUnavailable):
                await serving.ask(endpoint, "x", retry=None)
        await asyncio.to_thread(screen.wait, "100 % 5xx")
        rows = [line for line in screen.text.splitlines() if "answers" in line]
        assert " 90 % " in rows[0] and " ms" in rows[0] and " 0 " in rows[0].replace("·", "?"), rows
        assert " 10 % " in rows[1] and "100 % 5xx" in rows[1], rows

        # The second version, step by step; the cursor goes with its row.
        await keys("j", "j", "+", until="version 2 10 → 25 %")
        await keys("y", until="25 % to version 2")
        await keys("+", until="version 2 25 → 50 %")
        await keys("y", until="50 % to version 2")
        await keys("+", until="version 2 50 → 100 %")
        await keys("y", until="100 % to version 2")
        assert await serving.split(endpoint) == {old: 0, new: 100}
        await keys("u", until="version 2 100 → 50 %")
        await asyncio.to_thread(screen.press, "y")

        async def back() -> bool:
            return await serving.split(endpoint) == {old: 50, new: 50}

        await eventually(back, "the split before")
        # The list shows the change some time after the endpoint has it; the next key is about what it shows.
        await asyncio.to_thread(
            screen.wait,
            # The rows, not the toast, which has both shares too.
            lambda text: sum("answers" in line and " 50 % " in line for line in text.splitlines()) == 2,
        )
        await keys("D", until="gets 50 % of the requests")
        await keys("enter", until="canary")
        assert "Models" in screen.text
        screen.press("ctrl+q")
        assert await asyncio.to_thread(screen.wait_exit) == 0
    finally:
        screen.close()
