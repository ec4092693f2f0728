"""A growing log is read once; each verdict tells what the lines so far tell."""

from __future__ import annotations

from tests.unit.diagnosis_support import FATAL
from tui.domain.diagnosis.inputs import text_lines
from tui.domain.diagnosis.line import JobFacts
from tui.domain.diagnosis.rules import shipped_rules
from tui.store.job.log_verdict import LogJudge

FACTS = JobFacts("FAILED")


async def test_a_verdict_amid_a_log_changes_no_later_verdict() -> None:
    lines = list(text_lines(["step 1", *FATAL, "wandb: Run history:"], ["workerpool0-0"]))
    judged, whole = LogJudge(shipped_rules()), LogJudge(shipped_rules())
    for line in lines:
        await judged.read([line])
        judged.verdict(FACTS)
    await whole.read(lines)
    assert judged.verdict(FACTS) == whole.verdict(FACTS)
    assert judged.verdict(FACTS).cause.startswith("TypeError") and judged.verdict(FACTS).line == 4
