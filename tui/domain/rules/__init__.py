"""Rules before money: what the service would refuse, found here. One file for each family."""

from __future__ import annotations

from dataclasses import replace

from tui.domain.rules import machine, shape
from tui.domain.rules.base import Finding, Job, Rule

RULES: tuple[Rule, ...] = (*shape.RULES, *machine.RULES)


def check_job(job: Job) -> list[Finding]:
    """Every finding of every rule about a CustomJob in REST form, in the order of the rules."""
    return [replace(f, rule=rule.id, error=rule.error) for rule in RULES for f in rule.check(job)]
