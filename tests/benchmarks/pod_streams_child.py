"""A cluster whose 64 pods write ten lines a second each while they are followed; prints its address."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from tests.wire.kubernetes.pod_server import SECOND, Pod, PodServer, Run, written
from tests.wire.kubernetes.told_server import serving

PODS, PERIOD = 64, 0.1
TEXT = (
    '{"severity":"INFO","message":"step","vxtui":{"kind":"step","step":%d,"loss":2.345,"total_steps":90000}}'
)


class Busy(PodServer):
    """Its logs have no past."""

    async def _lines(self, pod: Pod, run: Run, params: dict[str, str], cut: int) -> AsyncIterator[bytes]:
        if params.get("follow") != "true":
            return
        at = 0
        await asyncio.sleep(PERIOD * pod.index / PODS)
        while True:
            at += 1
            text = TEXT % at if at % 2 else f"epoch 1 step {at} of a line of text that is as long as many are"
            yield written(time.time_ns(), text)
            await asyncio.sleep(PERIOD)


async def main() -> None:
    server = Busy(replicas=(0, PODS), created=time.time_ns() // SECOND * SECOND)
    for index in range(PODS):
        server.add("worker", index, started=server.created)
    async with serving(server.answer) as url:
        print(url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
