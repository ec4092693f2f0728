"""The severity of log lines: a corpus in the shape of public logs, on every path to the screen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.cloud.logging_v2.types import LogEntry as LogEntryPb
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.kubernetes.log_lines_support import NAME, START
from tui.backends.kubernetes.logs.lines.entries import entries_of
from tui.backends.vertex.logs import convert
from tui.domain.core.log_entry import LogEntry, Severity
from tui.domain.log.json_line import NotAnObject, parse_json_line
from tui.domain.log.judge import SeverityJudge
from tui.store.job.log_views import LogViews
from tui.store.log.lines import Lines
from tui.store.log.store import LogStore
from tui.store.log.text_file import as_lines
from tui.widgets.log.render import entry_details

CORPUS = Path(__file__).with_name("severity_corpus.txt")
LABELS = {"out": "INFO", "err": "ERROR"}
Log = list[tuple[str, Severity, str]]


def corpus() -> dict[str, Log]:
    """(stream, right severity, text) of each line by log."""
    logs: dict[str, Log] = {}
    for line in CORPUS.read_text().splitlines():
        if line.startswith("# "):
            log = logs[line[2:]] = []
            continue
        stream, severity, *text = line.split(" ", 2)
        for written, character in ((r"\t", "\t"), (r"\r", "\r"), (r"\x1b", "\x1b")):
            text = [part.replace(written, character) for part in text]
        log.append((stream, Severity.parse(severity), "".join(text)))
    return {name: log for name, log in logs.items() if log}


def logs() -> Iterator[tuple[str, Log]]:
    return iter(corpus().items())


def labelled(at: int, stream: str, text: str) -> LogEntryPb:
    """The entry that Vertex AI makes of a line: it knows `severity` in JSON, and no other field."""
    body: dict[str, object] = {"severity": LABELS[stream], "textPayload": text}
    if text.startswith("{"):
        try:
            payload = dict(json.loads(text))
        except ValueError:
            pass
        else:
            body = {"severity": payload.pop("severity", LABELS[stream]), "jsonPayload": payload}
    stamp = {"timestamp": f"2026-11-21T10:00:00.{at:06}Z", "insertId": f"{at:04}"}
    where = {"type": "ml_job", "labels": {"task_name": "workerpool0-0"}}
    return json_format.ParseDict(body | stamp | {"resource": where}, LogEntryPb.pb()())  # type: ignore[no-any-return]


def wrong(log: Log, judged: list[Severity]) -> list[tuple[str, str, str]]:
    return [
        (text, right.name, found.name)
        for (_, right, text), found in zip(log, judged, strict=True)
        if right is not found
    ]


def test_the_corpus_is_large() -> None:
    assert sum(map(len, corpus().values())) >= 150


@pytest.mark.parametrize(("name", "log"), logs(), ids=corpus())
def test_lines_have_their_own_severity_on_vertex(name: str, log: Log) -> None:
    entries = convert.entries([labelled(at, stream, text) for at, (stream, _, text) in enumerate(log)])
    assert not wrong(log, [entry.severity for entry in entries])


@pytest.mark.parametrize(("name", "log"), logs(), ids=corpus())
def test_lines_of_pods_have_the_same_severity(name: str, log: Log) -> None:
    """Without a label a line that states no severity is INFO."""
    judge = SeverityJudge()
    found = [entries_of(NAME, START + at, 0, text.encode(), judge)[0] for at, (_, _, text) in enumerate(log)]
    stated = [at for at, (_, right, _) in enumerate(log) if right is not found[at].severity]
    assert not [
        log[at] for at in stated if not (found[at].severity is Severity.INFO and log[at][2] in WITHOUT_LABEL)
    ]


@pytest.mark.parametrize(("name", "log"), logs(), ids=corpus())
def test_lines_of_a_file_have_the_same_severity(name: str, log: Log) -> None:
    levels = as_lines(0, [text for _, _, text in log]).levels
    assert not [
        line
        for line, code in zip(log, levels, strict=True)
        if code * 100 != line[1]
        and not (code == 0 and (line[1] is Severity.INFO or line[2] in WITHOUT_LABEL))
    ]


WITHOUT_LABEL = {
    "train.py FAILED",
    "Root Cause (first observed failure):",
    "/bin/sh: 1: nvidia-smi: not found",
    "python: can't open file '/app/train.py': [Errno 2] No such file or directory",
}
"""Lines that only stderr makes an error."""


def test_the_label_of_a_writer_and_of_the_platform_stays() -> None:
    boom = labelled(0, "err", "boom")
    boom.source_location.file = "train.py"
    platform = labelled(1, "err", "INFO: the job is preparing")
    platform.resource.labels["task_name"] = "service"
    explicit = labelled(2, "out", "INFO: slow")
    explicit.severity = 400
    assert [entry.severity for entry in convert.entries([boom, platform, explicit])] == [500, 500, 400]


def test_a_line_in_the_envelope_of_the_service_is_a_line() -> None:
    pb = labelled(0, "err", "{}")
    json_format.ParseDict(
        {"jsonPayload": {"levelname": "ERROR", "message": "INFO train: loading"}, "severity": "ERROR"}, pb
    )
    (entry,) = convert.entries([pb])
    assert (entry.severity, entry.label) == (Severity.INFO, Severity.ERROR)


def test_the_label_stays_in_the_details_and_in_the_stored_log(tmp_path: Path) -> None:
    entries = convert.entries([
        labelled(0, "err", "INFO train: loading"), labelled(1, "out", "ERROR boom"), labelled(2, "out", "3"),
    ])  # fmt: skip
    with_store = LogStore(tmp_path, max_bytes=1 << 20)
    with_store.append(entries)
    with_store.close()
    store = LogStore(tmp_path, max_bytes=1 << 20)
    lines = [line for line in (store[0], store[1], store[2]) if isinstance(line, LogEntry)]
    assert [(line.severity, line.label) for line in lines] == [(200, 500), (500, 200), (200, None)]
    assert "severity  INFO (the service's label is ERROR)" in entry_details(lines[0])
    assert "label" not in entry_details(lines[2])
    assert Lines.of(entries).counts() == (2, 0, 1, 0)
    store.close()


def test_the_next_error_is_a_traceback_as_one(tmp_path: Path) -> None:
    texts = [
        "INFO train: loading", "Traceback (most recent call last):", '  File "a.py", line 1, in f', "    g()",
        "ValueError: no", "INFO train: again", "ERROR train: boom", "Traceback (most recent call last):",
        '  File "a.py", line 1, in f', "    g()", "", "During handling of the above exception, another one:",
        "", "Traceback (most recent call last):", '  File "a.py", line 1, in f', "    g()", "app.Stop: now",
        "ERROR train: last",
    ]  # fmt: skip
    store = LogStore(tmp_path, max_bytes=1 << 20)
    store.append(convert.entries([labelled(at, "err", text) for at, text in enumerate(texts)]))
    views = LogViews(store, lambda entry: entry.message)
    forward, at = [], -1
    while (found := views.error(at, 1)) is not None:
        forward.append(at := found)
    back = []
    while (found := views.error(at, -1)) is not None:
        back.append(at := found)
    assert forward == [1, 6, 7, 17]
    assert back == [7, 6, 1]
    assert views.error(9, -1) == 7
    store.close()


@given(st.lists(st.tuples(st.sampled_from("ab"), st.text(max_size=300))))
def test_any_lines_have_a_severity(lines: list[tuple[str, str]]) -> None:
    judge = SeverityJudge()
    for source, text in lines:
        try:
            payload = parse_json_line(text).payload
        except NotAnObject:
            payload = None
        assert judge.judge(source, Severity.ERROR, text, payload) in Severity
