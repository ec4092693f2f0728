"""Rules that find the service's refusals before a launch. One file per family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tui.domain.document.source import ProblemSeverity
from tui.domain.spec.findings import Case, Finding, Rule
from tui.domain.vertex.rules import (
    machine,
    mounts,
    network,
    output,
    package,
    placeholder,
    reduction,
    region,
    runtime,
    scheduling,
    secret,
    shape,
    tpu,
    tuning,
)

__all__ = ["RULES", "check_job", "findings"]

_FAMILIES = (
    shape,
    placeholder,
    package,
    machine,
    tpu,
    region,
    scheduling,
    reduction,
    runtime,
    secret,
    network,
    output,
    mounts,
    tuning,
)
RULES: tuple[Rule, ...] = tuple(rule for family in _FAMILIES for rule in family.RULES)


def check_job(case: Case) -> list[Finding]:
    """Return the findings of all rules, in rule order; a placeholder's value gets no other finding."""
    return findings(RULES, case)


def findings(rules: Sequence[Rule], case: Case) -> list[Finding]:
    """Return the findings of these rules, in their order."""
    results = [
        replace(
            finding,
            rule=rule.id,
            severity=ProblemSeverity.ERROR if rule.emulated and case.local else rule.severity,
            source=rule.source,
        )
        for rule in rules
        for finding in rule.check(case)
    ]
    unfilled = {f.path for f in results if f.rule == placeholder.NAME}
    return [f for f in results if f.path not in unfilled or f.rule == placeholder.NAME]
