# ruff: noqa: E501 - lines of logs
"""Tracebacks of many shapes, and the formats in which a log may come."""

from __future__ import annotations

import json

import pytest

from tui.domain.diagnosis.decide import decide
from tui.domain.diagnosis.inputs import NoLog, array_lines, job_facts, text_lines
from tui.domain.diagnosis.line import JobFacts, LogLine
from tui.domain.diagnosis.reader import Reader
from tui.domain.diagnosis.rules import shipped_rules
from tui.domain.diagnosis.verdict import Verdict

HEAD = "Traceback (most recent call last):"
FRAME = '  File "/app/train.py", line 9, in main'


def verdict(lines: list[LogLine]) -> Verdict:
    reader = Reader(shipped_rules())
    reader.read(lines)
    return decide(reader.finish(), JobFacts("FAILED"), shipped_rules())


@pytest.mark.parametrize(
    ("texts", "cause", "line"),
    [
        # Two processes that interleave without a prefix.
        ([HEAD, HEAD, FRAME, FRAME, "    x = d['a']", "    f(x)", "KeyError: 'a'", "EOFError: Connection closed by peer"], "KeyError: 'a'", 6),
        # The direct cause comes first.
        ([HEAD, FRAME, "ZeroDivisionError: x", "", "The above exception was the direct cause of the following exception:", "", HEAD, FRAME, "RuntimeError: y"], "ZeroDivisionError: x", 2),
        (["  + Exception Group Traceback (most recent call last):", "  |   File \"/a.py\", line 3, in f", "  | ExceptionGroup: unhandled errors (1 sub-exception)",
          "  +-+---------------- 1 ----------------", f"    | {HEAD}", "    |   File \"/a.py\", line 9, in g", "    |     raise ValueError(\"x\")", "    | ValueError: bad shard"], "ValueError: bad shard", 7),
        # A logger writes its prefix before each line.
        ([f"ERROR 03-21 02:07:09 e.py:389] {HEAD}", f"ERROR 03-21 02:07:09 e.py:389] {FRAME}", "ERROR 03-21 02:07:09 e.py:389] TypeError: f() got x"], "TypeError: f() got x", 2),
        ([f"[rank3]: {HEAD}", "[rank1]: step 3", f"[rank3]: {FRAME}", "[rank3]: NameError: name 'q' is not defined"], "NameError: name 'q'", 3),
        # A bar is glued to it by a carriage return.
        ([f"  3%|█| 3/100 [00:01<00:30]\r{HEAD}", FRAME, "AttributeError: no x"], "AttributeError: no x", 2),
        (['{"message": "failed", "severity": "ERROR", "exc_info": "Traceback (most recent call last):\\n  File \\"/app/t.py\\", line 4, in f\\nIndexError: pop from empty list"}'], "IndexError: pop", 0),
    ],
)  # fmt: skip
def test_a_traceback_is_put_together(texts: list[str], cause: str, line: int) -> None:
    found = verdict(list(text_lines(texts)))
    assert found.cause.startswith(cause) and found.line == line


def test_the_array_of_gcloud_comes_newest_first_and_is_indexed_as_it_came() -> None:
    entries = [
        {"timestamp": "2026-11-28T10:00:03.123456789Z", "resource": {"labels": {"task_name": "workerpool1-0"}},
         "textPayload": f"{HEAD}\n{FRAME}\nModuleNotFoundError: No module named 'flash_attn'"},
        {"timestamp": "2026-11-28T10:00:01Z", "resource": {"labels": {"task_name": "workerpool0-0"}},
         "jsonPayload": {"message": "hello"}},
    ]  # fmt: skip
    found = verdict(array_lines(json.dumps(entries)))
    assert (found.cause, found.replica, found.line) == (
        "flash_attn is not in the image: a Python package is missing", "workerpool1-0", 0
    )  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "workerpool1-0 | KeyError: 'a'",
        "[workerpool1-0] 2026-11-28T10:00:02Z KeyError: 'a'",
        "2026-11-28T10:00:02Z workerpool1-0: KeyError: 'a'",
        "10:00:02.123 1-0     ▲ KeyError: 'a'",
    ],
)
def test_the_replica_may_stand_before_a_line(text: str) -> None:
    (line,) = text_lines([text], ["workerpool0-0", "workerpool1-0"])
    assert (line.replica, line.text.strip()) == ("workerpool1-0", "KeyError: 'a'")


@pytest.mark.parametrize("document", [[], {"replicas": 3}, {"replicas": [{"state": "FAILED"}]}])
def test_a_job_of_another_shape_is_refused(document: object) -> None:
    with pytest.raises(NoLog, match="must be"):
        job_facts(document)


@pytest.mark.parametrize("text", ["[1, 2]", "[{", "[" * 5000])
def test_an_array_of_something_else_is_refused(text: str) -> None:
    with pytest.raises(NoLog):
        array_lines(text)
