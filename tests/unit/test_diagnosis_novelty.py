"""Without a rule, the lines that neither a good run nor the other replicas print stand out."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.corpus.failures.novelty import scored
from tui.domain.diagnosis import novelty
from tui.domain.diagnosis.line import JobFacts, LogLine
from tui.domain.diagnosis.novelty import MOST_SHOWN, Novelty
from tui.domain.diagnosis.rules import shipped_rules
from tui.verbs.command_group import cli
from tui.verbs.log.diagnose import diagnose_file

CAUSE = "guard.golden.PromptDrift: KL of prompt 17 is 0.412"
REPLICAS = [f"workerpool{pool}-{number}" for pool, number in ((0, 0), (1, 0), (1, 1), (1, 2))]


def run(steps: int = 60, *, fails: bool) -> list[tuple[str, str]]:
    """The lines of four replicas. One fails by an exception that no rule knows, and the others follow."""
    lines = [(name, f"E0000 10:0{at} cuda_dnn.cc:85] no factory") for at, name in enumerate(REPLICAS)]
    for step in range(steps):
        lines += [(name, f"step {step} loss {3 - step / 90:.3f} errors=0") for name in REPLICAS]
        if step == 20:
            lines += [(REPLICAS[1], "shard 5 failed: ConnectionResetError; retrying in 2s")]
    if fails:
        frame = ('  File "/app/a.py", line 8, in f', "    raise PromptDrift(kl)")
        lines += [(REPLICAS[2], text) for text in ("Traceback (most recent call last):", *frame, CAUSE)]
        peer = "RuntimeError: Connection closed by peer [10.0.0.{}]:2201"
        lines += [(name, peer.format(at)) for at, name in enumerate(REPLICAS)]
    return lines


def read(lines: list[tuple[str, str]]) -> Novelty:
    log = Novelty()
    log.read([LogLine(at, float(at), name, 0, text) for at, (name, text) in enumerate(lines)])
    return log


def test_the_line_that_only_the_failed_replica_prints_is_first() -> None:
    first, *others = read(run(fails=True)).new()
    assert first.line.text == CAUSE and first.line.replica == REPLICAS[2]
    assert len(others) < MOST_SHOWN and all(other.score < first.score for other in others)


def test_what_a_good_run_prints_is_not_new() -> None:
    good = read(run(40, fails=False)).templates()
    assert read(run(fails=False)).new(good) == []
    new = read(run(fails=True)).new(good)
    assert new[0].line.text == CAUSE and not any("shard" in line.line.text for line in new)


def test_the_text_after_a_bar_and_a_rank_is_what_is_new() -> None:
    lines = [*run(fails=False), (REPLICAS[3], f" 40%|████      | 16/40 [00:13<00:22]\r[rank3]: {CAUSE}\r")]
    assert read(lines).new()[0].line.index == len(lines) - 1


def test_a_log_whose_lines_all_differ_takes_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, value in (("MOST_TEMPLATES", 300), ("MOST_OF_REPLICA", 50), ("MOST_KEYS", 100)):
        monkeypatch.setattr(novelty, limit, value)
    words, log = random.Random(4), Novelty()
    texts = ["".join(words.choices("abcdefghij ", k=60)) for _ in range(3_000)]
    log.read([LogLine(at, None, f"w-{at % 16}", 0, text) for at, text in enumerate(texts)])
    log.read([LogLine(3_000, None, "w-3", 0, CAUSE)])
    assert len(log.templates()) <= 300 and len(log._keys) <= 100
    assert log.new()[0].line.text == CAUSE


def test_the_lines_keep_their_index_where_the_newest_is_first(tmp_path: Path) -> None:
    rows = [
        {"timestamp": f"2026-07-11T02:{at // 60:02d}:{at % 60:02d}Z", "replica": name, "text": text}
        for at, (name, text) in enumerate(run(fails=True))
    ]
    log = tmp_path / "log.json"
    log.write_text(json.dumps(rows[::-1]))
    new = diagnose_file(log, JobFacts("FAILED"), shipped_rules()).json()["new"]
    assert new[0]["replica"] == REPLICAS[2] and rows[::-1][new[0]["line"]]["text"] == new[0]["text"] == CAUSE


def test_the_verb_shows_new_lines_where_no_rule_fits(tmp_path: Path) -> None:
    log, good = tmp_path / "log", tmp_path / "good"
    for path, fails in ((log, True), (good, False)):
        path.write_text("".join(f"{name} | {text}\n" for name, text in run(fails=fails)))
    told = CliRunner().invoke(cli, ["diagnose", str(log), "--good", str(good)])
    assert told.exit_code == 0 and CAUSE in told.output.partition("new in log")[2]
    told = CliRunner().invoke(cli, ["diagnose", str(log), "--good", str(tmp_path / "none")])
    assert told.exit_code != 0 and "can't be read" in f"{told.output}{told.exception}"


@pytest.mark.slow
@pytest.mark.parametrize("half", ["open", "blind"])
def test_the_cause_is_among_the_first_five_new_lines(half: str) -> None:
    """Reads 180 recorded logs."""
    rows = list(scored(half))
    assert sum(row.line for row in rows) >= 0.8 * len(rows)
    assert sum(row.replica for row in rows) >= 0.9 * len(rows)
