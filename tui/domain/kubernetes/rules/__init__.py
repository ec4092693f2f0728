"""Rules that find problems before a launch: refusals by a cluster, an operator or GKE, and endless waits."""

from __future__ import annotations

from tui.domain.kubernetes.rules import gke, labels, names, policy, replicas, runtime, shape
from tui.domain.kubernetes.rules.base import ManifestCase, ManifestRule
from tui.domain.spec.findings import Case, Finding

__all__ = ["RULES", "ManifestCase", "ManifestRule", "check_manifest"]

_FAMILIES = (shape, names, labels, replicas, policy, gke, runtime)
RULES: tuple[ManifestRule, ...] = tuple(rule for family in _FAMILIES for rule in family.RULES)


def check_manifest(case: Case) -> list[Finding]:
    """Return the findings of all rules, in rule order.

    A rule's finding replaces the schema's finding about the same field.
    """
    looked_at = ManifestCase.of(case)
    findings = [finding for rule in RULES for finding in rule.findings(looked_at)]
    known = {finding.path for finding in findings if finding.rule != shape.SCHEMA}
    return [finding for finding in findings if finding.rule != shape.SCHEMA or finding.path not in known]
