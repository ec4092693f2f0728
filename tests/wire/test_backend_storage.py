"""The backend's way to buckets: against the emulator's bucket server, by Google's client."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.wire.control import emulator
from tui.backends.interface import (
    BackendError,
    ContextInfo,
    FailedPrecondition,
    NotFound,
    PermissionDenied,
    Stopped,
    Unavailable,
)
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.storage import CHUNK
from tui.backends.vertex.transport.connect import LocalEndpoint
from tui.emulator.server import Emulator
from tui.emulator.storage.faults import BucketFaults


def backend_of(running: Emulator) -> VertexBackend:
    return VertexBackend(ContextInfo("local", "p", ("us-central1",)), LocalEndpoint(running.state))


async def test_a_bucket_and_an_upload_with_progress(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x" * (2 * CHUNK + 5))
    async with emulator() as (running, _), backend_of(running) as backend:
        made = await backend.storage.create_bucket("place", "europe-west4")
        assert (made.location, made.location_type, made.storage_class) == (
            "europe-west4",
            "region",
            "STANDARD",
        )
        assert await backend.storage.bucket("place") == made
        with pytest.raises(FailedPrecondition, match="already own it"):
            await backend.storage.create_bucket("place", "us-central1")
        with pytest.raises(NotFound, match="read the bucket gs://no-such-bucket") as missing:
            await backend.storage.bucket("no-such-bucket")
        assert "gs://no-such-bucket exists" in missing.value.fix
        told: list[tuple[int, int]] = []
        assert await backend.storage.size_of("gs://place/a/b") is None
        await backend.storage.upload(source, "gs://place/a/b", lambda *now: told.append(now))
        assert await backend.storage.size_of("gs://place/a/b") == 2 * CHUNK + 5
        assert (running.state.buckets / "place/a/b").read_bytes() == source.read_bytes()
        for size in (0, CHUNK):
            (tmp_path / "even").write_bytes(b"y" * size)
            await backend.storage.upload(tmp_path / "even", "gs://place/even")
            assert await backend.storage.size_of("gs://place/even") == size
        assert (
            told[-1] == (2 * CHUNK + 5,) * 2
            and told[0] == (0, 2 * CHUNK + 5)
            and len(told) >= 3
            and told == sorted(told)
        )
        with pytest.raises(NotFound):
            await backend.storage.size_of("gs://no-such-bucket/x")
        with pytest.raises(NotFound):
            await backend.storage.upload(source, "gs://no-such-bucket/x")


async def test_a_cancelled_upload_leaves_no_object(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x" * (8 * CHUNK))
    async with emulator() as (running, _), backend_of(running) as backend:
        await backend.storage.create_bucket("place", "us-central1")
        running.buckets.faults.set(BucketFaults(delay=0.2))
        begun = asyncio.Event()
        task = asyncio.create_task(backend.storage.upload(source, "gs://place/x", lambda *_: begun.set()))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        running.buckets.faults.set(BucketFaults())
        assert await backend.storage.size_of("gs://place/x") is None


async def test_what_a_bucket_refuses_is_said_in_the_backend_s_words(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x")
    async with emulator() as (running, _), backend_of(running) as backend:
        await backend.storage.create_bucket("place", "us-central1")
        for kind, error in (
            ("denied", PermissionDenied),
            ("unavailable", Unavailable),
            ("missing", NotFound),
        ):
            running.buckets.faults.set(BucketFaults(kind))
            with pytest.raises(error, match="upload source to gs://place/x"):
                await backend.storage.upload(source, "gs://place/x")
        running.buckets.faults.set(BucketFaults("unavailable", times=1))
        await backend.storage.upload(source, "gs://place/x")
        with pytest.raises(BackendError):
            await backend.storage.upload(tmp_path / "gone", "gs://place/x")
        await running.buckets.close()
        await running.__aexit__(None, None, None)
        with pytest.raises(Stopped):
            await backend.storage.bucket("place")
