"""Tests of the guard's service: deliveries on a full disk, and which ended jobs cause alerts."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.ui.double import NOON, Clock, MemoryBackend
from tui.config.settings import Context, Settings
from tui.domain.core.formatting import rfc3339
from tui.guard.record import GuardRecord
from tui.guard.service import GuardService


def service(tmp_path: Path, record: GuardRecord, **channel: Any) -> GuardService:
    settings = Settings(
        guard={"channels": [{"name": "c", **channel}], "alerts": [{"when": ["failed"], "to": ["c"]}]}
    )
    backends: Any = {"test": (Context("test", project="p"), MemoryBackend([]))}
    return GuardService(settings, backends, record, tmp_path, Clock())


async def test_a_delivery_that_cannot_be_recorded_is_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "told"
    record = GuardRecord(tmp_path / "guard.db")
    own = service(tmp_path, record, kind="command", command=["sh", "-c", f"echo told >>{told}"])
    record.add("k", NOON, "test", "job", title="t", body="b", due={"c": NOON})
    with monkeypatch.context() as full:
        full.setattr(record, "note_sent", _full_disk)
        for _ in range(2):
            await _deliver(own)
    await _deliver(own)
    assert told.read_text() == "told\n"
    assert [delivery.sent for delivery in record.deliveries(record.alerts(NOON))] == [True]
    record.close()


async def test_a_flood_of_alerts_is_one_message(tmp_path: Path) -> None:
    bodies: list[str] = []

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        bodies.append((await reader.readuntil(b"guard log")).decode())
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n")
        writer.close()

    record = GuardRecord(tmp_path / "guard.db")
    async with await asyncio.start_server(reply, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        own = service(tmp_path, record, kind="ntfy", url=url)
        own.gather_seconds = 0
        for number in range(400):
            record.add(str(number), NOON, "test", "job", title=f"j{number} failed", body="", due={"c": NOON})
        await _deliver(own)
    (body,) = bodies
    assert body.startswith("400 alerts\nj0 failed\n") and "and 390 more" in body
    assert all(delivery.sent for delivery in record.deliveries(record.alerts(NOON)))
    record.close()


@pytest.mark.parametrize(
    ("read", "since"),
    [
        ({}, timedelta(0)),
        ({"test": {"read_at": None}}, timedelta(days=-30)),
        ({"test": {"read_at": rfc3339(NOON - timedelta(days=7))}}, timedelta(days=-7, hours=-1)),
        ({"test": {"read_at": rfc3339(NOON + timedelta(days=7))}}, timedelta(0)),
    ],
    ids=["a new context", "never read", "read a week ago", "the clock was ahead"],
)
async def test_jobs_that_ended_before_the_last_read_cause_no_alert(
    tmp_path: Path, read: dict[str, Any], since: timedelta
) -> None:
    record = GuardRecord(tmp_path / "guard.db")
    record.set_fact("first_start", rfc3339(NOON - timedelta(days=30)) or "")
    record.set_fact("status", json.dumps({"contexts": read}))
    (watch,) = service(tmp_path, record, kind="ntfy", url="http://127.0.0.1:9/").watches
    assert watch._since == NOON + since
    record.close()


async def _deliver(own: GuardService) -> None:
    await own._deliver()
    await asyncio.gather(*own._sending.values())


def _full_disk(*_: object) -> None:
    raise sqlite3.OperationalError("database or disk is full")
