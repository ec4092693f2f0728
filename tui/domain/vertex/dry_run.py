"""The documented JSON of a launch before it is sent (docs/JSON.md, 'A dry run')."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tui.domain.document.source import Problem
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
    """Return the JSON of a dry run: the request in REST format, and the results of the rules and the checks.
    `resource` is the resource to create, under its name in the request (`spec_format.request_of`)."""
    return {
        "request": {"parent": parent, **resource},
        "price": price_json(price),
        "preflight": [check_json(check) for check in checks],
        "problems": [problem_json(problem) for problem in problems],
    }


def price_json(price: Estimate) -> dict[str, Any]:
    """Return USD per hour, the share for reducers, and USD for the timeout; null if a price is unknown."""

    def span(usd: Range | None) -> dict[str, float] | None:
        return None if usd is None else {"low": round(usd.low, 4), "high": round(usd.high, 4)}

    return {
        "currency": "USD",
        "estimate": True,
        "hour": span(price.hour),
        "reducers_hour": span(price.reducers),
        "whole": span(price.whole),
        "seconds": price.seconds or None,
        "date": price.date,
        "source": price.source,
        "notes": list(price.notes),
        "missing": list(price.missing),
        "tasks": [
            {
                "name": task.title,
                "machine": task.machine or None,
                "hour": span(task.hour),
                "runs": task.runs,
                "note": task.why or None,
            }
            for task in price.tasks
        ],
    }


def price_words(price: Estimate, *, billed: bool = True) -> str:
    """Return the price as text: `~$46–71 an hour, at most ~$3.4k in 48 h (estimate, prices of 2026-10-07)`.
    Unless it is `billed`, the text is about the cost of the launch in the cloud."""
    if price.tasks:
        return _tasks_words(price, "" if billed else "would cost ")
    if price.hour is None or price.whole is None:
        return f"not known: {', '.join(price.missing)}"
    most = money(Range(price.whole.high, price.whole.high))
    hours = f"{price.seconds / HOUR:.3g} h"
    would = "" if billed else "would cost "
    return f"{would}{money(price.hour)} an hour, at most {most} in {hours} (estimate, prices of {price.date})"


def hour_of_a_task(price: Estimate) -> Range | None:
    """Return the range from the cheapest to the most expensive task's hour; None if there is no price."""
    hours = [task.hour for task in price.tasks if task.hour is not None]
    return Range(min(hour.low for hour in hours), max(hour.high for hour in hours)) if hours else None


def _tasks_words(price: Estimate, would: str) -> str:
    """Return the prices of tasks as text: `~$0.18–0.76 an hour a task; the total is unknown before it runs
    (…)`."""
    hours = [task.hour for task in price.tasks if task.hour is not None]
    whole, span = "the total is unknown before it runs", hour_of_a_task(price)
    if span is None:
        return f"not known: {', '.join(price.missing)}"
    of = f" ({len(hours)} of {len(price.tasks)} known)" if len(hours) < len(price.tasks) else ""
    return f"{would}{money(span)} an hour a task{of}; {whole} (estimate, prices of {price.date})"


def task_lines(price: Estimate) -> list[str]:
    """Return a line for each task: `train  ~$0.18 an hour  e2-standard-4  once`."""
    if not price.tasks:
        return []
    wide = max(len(task.title) for task in price.tasks)
    lines = []
    for task in price.tasks:
        often = {None: "runs: unknown", 1: "once"}.get(task.runs, f"{task.runs} times")
        why = f" ({task.why})" if task.why else ""
        cost = f"{money(task.hour)} an hour" if task.hour is not None else "not known"
        lines.append(f"{task.title:<{wide}}  {cost}  {task.machine or '·'}  {often}{why}")
    return lines


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
