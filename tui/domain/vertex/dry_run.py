"""The documented shape of what is known of a launch before it is sent (docs/JSON.md, 'A dry run')."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tui.domain.profile.source import Problem
from tui.domain.vertex.cost import HOUR, Estimate, money
from tui.domain.vertex.preflight import Check
from tui.domain.vertex.prices import Range


def document(
    parent: str,
    resource: Mapping[str, Any],
    price: Estimate,
    problems: Sequence[Problem],
    checks: Sequence[Check],
) -> dict[str, Any]:
    """A dry run: the request in REST form, and what the rules and the checks found.

    `resource` is what is created, under its name in the request (`spec_format.request_of`).
    """
    return {
        "request": {"parent": parent, **resource},
        "price": price_json(price),
        "preflight": [check_json(check) for check in checks],
        "problems": [problem_json(problem) for problem in problems],
    }


def price_json(price: Estimate) -> dict[str, Any]:
    """USD an hour, for the reducers of it, and for the whole timeout; null where a price is not known."""

    def span(usd: Range | None) -> dict[str, float] | None:
        return None if usd is None else {"low": round(usd.low, 4), "high": round(usd.high, 4)}

    return {
        "currency": "USD",
        "estimate": True,
        "hour": span(price.hour),
        "reducers_hour": span(price.reducers),
        "whole": span(price.whole),
        "seconds": price.seconds,
        "date": price.date,
        "source": price.source,
        "notes": list(price.notes),
        "missing": list(price.missing),
    }


def price_words(price: Estimate, *, billed: bool = True) -> str:
    """`~$46–71 an hour, at most ~$3.4k in 48 h (estimate, prices of 2026-10-07)`.

    Where nothing is `billed`, it is what the launch would cost in the cloud.
    """
    if price.hour is None or price.whole is None:
        return f"not known: {', '.join(price.missing)}"
    most = money(Range(price.whole.high, price.whole.high))
    hours = f"{price.seconds / HOUR:.3g} h"
    would = "" if billed else "would cost "
    return f"{would}{money(price.hour)} an hour, at most {most} in {hours} (estimate, prices of {price.date})"


def check_json(check: Check) -> dict[str, Any]:
    return {
        "id": check.id,
        "verdict": check.status.value,
        "sentence": check.sentence,
        "fix": check.fix or None,
        "stops": check.fatal,
        "region": check.region or None,
        "seconds": check.seconds,
    }


def problem_json(problem: Problem) -> dict[str, Any]:
    return {
        "id": problem.id,
        "severity": problem.severity.value,
        "path": problem.field,
        "sentence": problem.message,
        "fix": problem.fix or None,
        "source": problem.source or None,
    }
