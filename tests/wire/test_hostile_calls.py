"""Random calls over REST, gRPC and to the buckets: refused or served, never an internal error."""

from __future__ import annotations

from random import Random

import httpx

from tests.benchmarks.hostile_vertex import Calls
from tests.wire.control import NEVER, connect, state_dir
from tui.emulator.config import EmulatorConfig
from tui.emulator.rpc.methods import LARGE, MOST_VALUES
from tui.emulator.rpc.rest_server import MESSAGE_LIMIT, read_token
from tui.emulator.server import Emulator

WRITE = "/google.logging.v2.LoggingServiceV2/WriteLogEntries"
EXECUTION = "/google.cloud.aiplatform.v1.MetadataService/UpdateExecution"
PREDICT = "/v1/projects/p/locations/us-central1/endpoints/1:predict"
JOBS = "/v1/projects/p/locations/us-central1/customJobs"
BODIES: dict[str, list[tuple[str | bytes, int]]] = {
    PREDICT: [('{"instances": null}', 400), ('{"instances": [' + "0," * MOST_VALUES + "0]}", 400)],
    JOBS: [
        ('{"labels": {' + ",".join(f'"{n}":""' for n in range(50_000)) + "}}", 400),
        (b" " * (MESSAGE_LIMIT + 1), 413),
    ],
    "/v2/entries:write": [('{"entries": [], "entries": 5, "log_name": 5}', 400)],
}


async def test_odd_calls_are_no_internal_error() -> None:
    """The calls that failed, and a sample of those that the benchmark makes."""
    with state_dir() as state:
        config = EmulatorConfig.model_validate(NEVER)
        async with (
            Emulator(state, config, rest="127.0.0.1:0") as running,
            connect(running.target) as clients,
            httpx.AsyncClient(
                base_url=str(running.rest_url), headers={"authorization": f"Bearer {read_token(state)}"},
                timeout=60, trust_env=False,
            ) as http,
        ):  # fmt: skip
            calls = Calls(http, str(running.buckets.url), clients.channel, running.methods)
            for path, bodies in BODIES.items():
                for content, status in bodies:
                    reply = await http.post(path, content=content)
                    assert reply.status_code == status, (content[:80], reply.text)
            for address, content in (
                (WRITE, b"\xc3"), (EXECUTION, b"\x18\x01"), (WRITE, b"\x22\x00" * max(LARGE, MOST_VALUES)),
            ):  # fmt: skip
                await calls.send_bytes(address, content)
            assert calls.answers == {"gRPC INVALID_ARGUMENT": 3}
            await http.post(f"{running.buckets.url}/storage/v1/b", json={"name": "bkt"})
            for number in range(100):
                await calls.send(Random(f"7 {number}"), most_bytes=100_000)
            assert calls.failures == [] and len(calls.answers) > 5
