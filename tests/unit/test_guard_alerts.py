"""Alerts: their record, their settings, and each channel against a real local server."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.ui.double import NOON, job
from tui.config.guard_settings import AlertChannel
from tui.config.settings import SettingsError
from tui.config.settings_file import read_settings
from tui.domain.core.diagnosis import Diagnosis
from tui.domain.core.states import JobState
from tui.domain.guard.conditions import JobReading
from tui.domain.guard.message import alert_body, alert_title
from tui.guard.channels import DeliveryFailed, deliver
from tui.guard.process import GuardError, guard_lock, running_guard
from tui.guard.record import FIRST_RETRY, GIVE_UP, AlertRecord, GuardRecord

ALERT = AlertRecord(
    1, NOON, "prod", "projects/p/locations/r/customJobs/1", "a <b> failed", "Cause: @here & [x]"
)


# Channels


@dataclass
class WebServer:
    url: str
    status: int = 200
    bodies: list[bytes] = field(default_factory=list)


@pytest.fixture
def web() -> Iterator[WebServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            here.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(here.status)
            if here.status == 302:
                self.send_header("Location", here.url)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    here = WebServer(f"http://127.0.0.1:{server.server_port}/secret-token")
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield here
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("slack", {"text": "a &lt;b&gt; failed\nCause: @here &amp; [x]", "mrkdwn": False}),
        ("google-chat", {"text": "a &lt;b&gt; failed\nCause: @here &amp; [x]"}),
        ("discord", {"content": "a <b> failed\nCause: @here & [x]", "allowed_mentions": {"parse": []}}),
        ("webhook", {"id": 1, "time": "2026-11-21T12:00:00.000000Z", "context": "prod", "job": ALERT.job,
                     "title": "a <b> failed", "text": "Cause: @here & [x]"}),
    ],
)  # fmt: skip
async def test_a_webhook_gets_its_own_format(web: WebServer, kind: str, expected: object) -> None:
    await deliver(AlertChannel("c", kind, web.url), ALERT)  # type: ignore[arg-type]
    assert [json.loads(body) for body in web.bodies] == [expected]


async def test_ntfy_gets_plain_text(web: WebServer) -> None:
    await deliver(AlertChannel("c", "ntfy", web.url), ALERT)
    assert web.bodies == [b"a <b> failed\nCause: @here & [x]"]


@pytest.mark.parametrize(("status", "words"), [(500, "500"), (302, "302"), (403, "403")])
async def test_a_webhook_that_refuses_says_why_without_its_address(
    web: WebServer, status: int, words: str
) -> None:
    web.status = status
    with pytest.raises(DeliveryFailed, match=words) as error:
        await deliver(AlertChannel("c", "slack", web.url), ALERT)
    assert "secret-token" not in str(error.value) and len(web.bodies) == 1


@pytest.mark.parametrize("answer", [b"\x00garbage\r\n", b"HTTP/1.1 two hundred\r\n\r\n", b""])
async def test_an_answer_that_is_not_http_is_a_failure(answer: bytes) -> None:
    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(reply, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/secret-token"
        with pytest.raises(DeliveryFailed) as error:
            await deliver(AlertChannel("c", "webhook", url), ALERT)
    assert "secret-token" not in str(error.value)


async def test_an_answer_without_end_is_read_to_its_headers() -> None:
    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nx")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(reply, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        await deliver(AlertChannel("c", "webhook", url), ALERT)


async def test_an_invalid_address_is_a_failure_that_does_not_show_it() -> None:
    for channel in (
        AlertChannel("c", "webhook", "http://127.0.0.1:9/secret topic"),
        AlertChannel("c", "mail", address="a@b\nBcc: c@d", server="127.0.0.1:9"),
    ):
        with pytest.raises(DeliveryFailed) as error:
            await deliver(channel, ALERT)
        assert "secret" not in str(error.value)


async def test_a_server_that_is_not_there_is_a_failure() -> None:
    with pytest.raises(DeliveryFailed, match="refused"):
        await deliver(AlertChannel("c", "webhook", "http://127.0.0.1:9/"), ALERT)


@asynccontextmanager
async def smtp() -> AsyncIterator[tuple[str, list[str]]]:
    """A mail server that takes every mail: its address, and the lines that it was sent."""
    lines: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 here\r\n")
        in_mail = False
        while raw := await reader.readline():
            lines.append(line := raw.decode().rstrip("\r\n"))
            if in_mail and line != ".":
                continue
            in_mail = line.upper() == "DATA"
            code = 354 if in_mail else 221 if line.upper() == "QUIT" else 250
            writer.write(f"{code} ok\r\n".encode())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", lines


async def test_a_mail_has_title_and_text() -> None:
    async with smtp() as (address, lines):
        await deliver(AlertChannel("c", "mail", address="me@example.com", server=address), ALERT)
    assert "Subject: vxtui: a <b> failed" in lines and "Cause: @here & [x]" in lines
    assert any(line.upper().startswith("RCPT TO:<ME@EXAMPLE.COM>") for line in lines)


async def test_a_command_gets_the_alert_on_its_input(tmp_path: Path) -> None:
    file = tmp_path / "alert.json"
    await deliver(AlertChannel("c", "command", command=["sh", "-c", f"cat > {file}"]), ALERT)
    assert json.loads(file.read_text())["title"] == "a <b> failed"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["sh", "-c", "echo no route >&2; exit 3"], "sh exited with 3: no route"),
        (["/no/such/program"], "is not installed"),
    ],
)
async def test_a_command_that_fails_says_why(command: list[str], words: str) -> None:
    with pytest.raises(DeliveryFailed, match=words):
        await deliver(AlertChannel("c", "command", command=command), ALERT)


# Record


@pytest.fixture
def record(tmp_path: Path) -> Iterator[GuardRecord]:
    record = GuardRecord(tmp_path / "guard" / "guard.db")
    yield record
    record.close()


def add(record: GuardRecord, key: str = "k", **due: float) -> bool:
    moments = {name: NOON + timedelta(seconds=seconds) for name, seconds in due.items()}
    return record.add(key, NOON, "prod", "job", title="t", body="b", due=moments)


def test_an_alert_is_stored_once(record: GuardRecord, tmp_path: Path) -> None:
    assert add(record, hook=0) and not add(record, hook=0) and record.knows("k")
    again = GuardRecord(tmp_path / "guard" / "guard.db")
    assert len(again.alerts(NOON)) == len(again.due(NOON)) == 1
    again.close()
    assert (tmp_path / "guard" / "guard.db").stat().st_mode & 0o077 == 0


def test_a_failed_delivery_is_tried_again_later_and_given_up_after_a_day(record: GuardRecord) -> None:
    add(record, hook=0, mail=60)
    (hook,) = record.due(NOON)
    record.note_failed(hook, NOON, "no answer")
    assert record.due(NOON) == [] and [d.error for d in record.failing()] == ["no answer"]
    assert len(record.due(NOON + timedelta(seconds=FIRST_RETRY))) == 1
    assert len(record.due(NOON + timedelta(seconds=60))) == 2
    # An alert that waited all the time, while the guard was stopped, is sent still.
    assert [d.channel for d in record.due(NOON + GIVE_UP)] == ["mail"]
    record.note_sent(hook, NOON)
    assert record.failing() == [] and [d.sent for d in record.deliveries(record.alerts(NOON))] == [
        True,
        False,
    ]


def test_the_first_start_is_remembered(record: GuardRecord) -> None:
    record.set_fact("first_start", "a", replace=False)
    record.set_fact("first_start", "b", replace=False)
    assert record.fact("first_start") == "a"


# Message


def test_a_message_has_cause_cost_and_command_and_no_secret() -> None:
    reading = JobReading(job(1, "a\x1b[2J", JobState.FAILED, ended=0), NOON, 1_234.5)
    diagnosis = Diagnosis("CUDA is out of memory, TOKEN=sk-abcdef123456.", "Use a smaller batch.", guess=True)
    text = f"{alert_title(reading, 'failed')}\n{alert_body(reading, diagnosis)}"
    assert "(not certain)" in text and "~$1,234.50" in text and "ran 59m" in text
    assert "vxtui --context test describe 1" in text and "Use a smaller batch." in text
    assert "sk-abcdef123456" not in text and "\x1b" not in text


# Settings


def settings(tmp_path: Path, text: str) -> str:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    with pytest.raises(SettingsError) as error:
        read_settings(file, {})
    return str(error.value).removeprefix(f"{file}:")


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("guard:\n  alerts:\n  - {when: [fails], to: []}\n", "3: guard.alerts[0]", "must be one of failed,"),
        (
            "guard:\n  alerts:\n  - {when: [failed], to: [x]}\n",
            "1: guard",
            "names the channel x, but there are no",
        ),
        ("guard:\n  channels:\n  - {name: x, kind: pager}\n", "3: guard.channels[0].kind", "'slack'"),
        ("guard:\n  channels:\n  - {name: x, kind: slack}\n", "3: guard.channels[0]", "must have a url"),
        (
            "guard:\n  channels:\n  - {name: x, kind: ntfy, urll: y}\n",
            "3: guard.channels[0].urll",
            "did you mean url",
        ),
        ("guard:\n  contexts: [nowhere]\n", "2: guard.contexts[0]", "No context is called nowhere"),
        ("guard:\n  may_cancel: [nowhere]\n", "2: guard.may_cancel[0]", "No context is called nowhere"),
        (
            "guard:\n  alerts:\n  - {when: [failed, ended], to: [], then: cancel}\n",
            "3: guard.alerts[0]",
            "has not ended",
        ),
        ("guard:\n  alerts:\n  - {when: [failed], to: []}\n", "1: guard", "one channel in `to`"),
        ("guard:\n  alarts: []\n", "2: guard.alarts", "did you mean alerts"),
        (
            "guard:\n  alerts:\n  - {when: [failed], to: [], quiet: 25:00-07:00}\n",
            "3: guard.alerts[0]",
            "times of day",
        ),
        ("guard:\n  alerts:\n  - {when: [failed], to: [], jobs: 'age:x'}\n", "3: guard.alerts[0]", "age"),
    ],
)
def test_wrong_settings_are_refused_with_line_and_fix(
    tmp_path: Path, text: str, where: str, words: str
) -> None:
    message = settings(tmp_path, text)
    assert message.startswith(where) and words in message


# Process


def test_one_process_at_a_time_is_the_guard(tmp_path: Path) -> None:
    assert running_guard(tmp_path) is None
    with guard_lock(tmp_path) as ready:
        assert running_guard(tmp_path) is None
        ready()
        assert running_guard(tmp_path) == os.getpid()
        with pytest.raises(GuardError, match="already runs"), guard_lock(tmp_path):
            pass
    assert running_guard(tmp_path) is None
