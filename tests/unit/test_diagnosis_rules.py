"""The rules of the diagnosis: each matches its own line and no counter-line; a user's file is checked."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tui.domain.diagnosis.decide import decide
from tui.domain.diagnosis.inputs import job_facts, text_lines
from tui.domain.diagnosis.line import JobFacts, ReplicaEnd
from tui.domain.diagnosis.platform import with_message
from tui.domain.diagnosis.reader import Reader
from tui.domain.diagnosis.rules import FAMILIES, RuleError, read_rules, shipped_rules
from tui.domain.diagnosis.verdict import Verdict

FOLDER = Path(__file__).parents[2] / "tui" / "domain" / "diagnosis" / "data"
CORPUS = Path(__file__).parents[1] / "corpus" / "failures"
WORDINGS: list[dict[str, Any]] = json.loads((CORPUS / "wordings.json").read_text())
VOCABULARY = (CORPUS / "vocabulary.txt").read_text().splitlines()
HEAD = "Traceback (most recent call last):"
SAMPLES: list[dict[str, Any]] = json.loads((CORPUS / "samples.json").read_text())


def verdict(texts: list[str], facts: JobFacts | None = None, replica: str = "workerpool0-0") -> Verdict:
    facts = facts or JobFacts("FAILED")
    reader = Reader(shipped_rules())
    reader.read(list(text_lines(texts, [replica])))
    return decide(with_message(reader, facts), facts, shipped_rules())


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_each_rule_matches_its_line_and_not_its_counter_line(path: Path) -> None:
    for rule in read_rules(path):
        assert rule.line and rule.counter and rule.source, rule.id
        assert rule.where != "line" or shipped_rules().suspicious(["step 1", rule.line]) == {1}, rule.id
        assert rule.role not in {"root", "either", "cascade"} or rule.family in FAMILIES[:-2], rule.id
        assert rule in shipped_rules().matches(rule.line, rule.where), rule.id


@pytest.mark.parametrize("wording", WORDINGS, ids=lambda wording: str(wording["id"]))
def test_a_documented_wording_has_its_role_and_family(wording: dict[str, Any]) -> None:
    reader = Reader(shipped_rules())
    reader.read(list(text_lines([wording["line"]])))
    findings = reader.finish()
    role = findings.evidence[0].role if findings.evidence else "pointer"
    wanted = {"diagnostic": {"noise"}, "teardown": {"teardown", "pointer"}}.get(
        wording["role"], {wording["role"]}
    )
    if not wording["line"].startswith("exitcode"):
        assert role in wanted or {role, wording["role"]} <= {"teardown", "pointer"}
    if wording["families"]:
        assert decide(findings, JobFacts("FAILED"), shipped_rules()).family in wording["families"]


RAISED = re.compile(r"(?:[A-Za-z_]\w*\.)*_?[A-Z][a-z]\w+(?::|$)")


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_the_family_of_a_wording_is_known_and_no_certain_one_is_wrong(step: int) -> None:
    rows = [row.split(" | ", 1) for row in VOCABULARY if row and not row.startswith("#")][::step]
    wrong, certain = [], []
    for families, line in rows:
        before = ["step 1 loss 2.3", "step 2 loss 2.2"]
        if RAISED.match(line):
            before += [HEAD, '  File "/app/train.py", line 61, in main', "    run()"]
        found = verdict(
            [*before, line], JobFacts("FAILED", replicas={"workerpool0-0": ReplicaEnd("FAILED", 1)})
        )
        if found.family not in families.split(","):
            wrong.append(line)
            certain += [line] if found.sure else []
    assert len(wrong) <= 0.05 * len(rows) and not certain, (wrong, certain)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: str(sample["name"]))
def test_a_sample_says_its_cause(sample: dict[str, Any]) -> None:
    code = re.search(r"status of (\d+)", sample["message"])
    facts = job_facts(
        {
            "state": "JOB_STATE_FAILED",
            "error": {"code": 3, "message": sample["message"]},
            "replicas": [{"name": "workerpool0-0", "exit_code": int(code[1]) if code else None}],
        }
    )
    found = verdict((sample["log"] or "").splitlines(), facts)
    assert re.search(sample["says"], f"{found.cause} {found.next}", re.IGNORECASE), found


def test_an_empty_log_names_the_right_that_may_be_missing() -> None:
    assert "roles/logging.logWriter" in verdict([], JobFacts("FAILED")).next


def test_a_users_rule_precedes_and_names_groups(tmp_path: Path) -> None:
    own = tmp_path / "rules.yaml"
    own.write_text(
        "- id: licence\n  match: 'seat server (?P<host>\\S+) says no'\n  family: dependency-service\n"
        "  cause: 'The seat server {host} refused'\n  retry: 'yes'\n"
    )
    rules = shipped_rules(own)
    reader = Reader(rules)
    reader.read(list(text_lines(["step 1 loss 2", "seat server lic1 says no"])))
    found = decide(reader.finish(), JobFacts("FAILED"), rules)
    assert (found.cause, found.line, found.retry) == ("The seat server lic1 refused", 1, "yes")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("- id: a\n", "rules.yaml:1: rule a must have an `id` and a `match`"),
        (
            "- id: ok\n  match: x\n- id: b\n  match: '(?=x)'\n",
            "rules.yaml:3: rule b: match can't be used: .* looks ahead",
        ),
        ("- id: c\n  match: x\n  family: odd\n", "family must be one of code, package"),
        ("- id: d\n  match: x\n  line: y\n", "match must match its own line: y"),
        ("- id: e\n  match: x\n  not: axe\n", "match must not match its counter-line: axe"),
        ("- id: f\n  match: x\n  colour: red\n", "has the unknown key colour"),
        ("- id: g\n  match: x\n- id: g\n  match: y\n", "has the id of an earlier rule"),
        ("id: h\n", "must be a list of rules"),
        ("- id: [\n", "rules.yaml: .*line 2"),
    ],
)
def test_a_bad_rule_is_named_with_file_and_line(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    with pytest.raises(RuleError, match=why):
        read_rules(path)
