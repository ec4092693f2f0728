"""Rules that find before a launch what the service would refuse. One file for each family."""

from __future__ import annotations

from dataclasses import replace

from tui.domain.vertex.rules import (
    machine,
    mounts,
    network,
    output,
    package,
    reduction,
    region,
    runtime,
    scheduling,
    secret,
    shape,
    spot,
    tpu,
)
from tui.domain.vertex.rules.base import Case, Finding, Rule, Severity

__all__ = ["RULES", "Case", "Finding", "Rule", "Severity", "check_job"]

_FAMILIES = (
    shape,
    package,
    machine,
    tpu,
    region,
    scheduling,
    spot,
    reduction,
    runtime,
    secret,
    network,
    output,
    mounts,
)
RULES: tuple[Rule, ...] = tuple(rule for family in _FAMILIES for rule in family.RULES)


def check_job(case: Case) -> list[Finding]:
    """Every finding of every rule, in the order of the rules."""
    return [
        replace(found, rule=rule.id, severity=rule.severity, source=rule.source)
        for rule in RULES
        for found in rule.check(case)
    ]
