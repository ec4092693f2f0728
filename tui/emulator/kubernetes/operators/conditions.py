"""Conditions of `batch/v1`, JobSet, TrainJob and Kueue: one per type, with a transition time."""

from __future__ import annotations

from tui.emulator.kubernetes.resources import Obj


def find(status: Obj, condition: str) -> Obj | None:
    """Return the condition of this type."""
    present: list[Obj] = status.get("conditions") or []
    return next((entry for entry in present if entry["type"] == condition), None)


def is_true(status: Obj, condition: str) -> bool:
    """Return whether the condition is True."""
    entry = find(status, condition)
    return entry is not None and entry["status"] == "True"


def end_time(status: Obj, *ends: str) -> str:
    """Return the transition time of the first condition of these types; one must exist."""
    return next(str(entry["lastTransitionTime"]) for entry in status["conditions"] if entry["type"] in ends)


def put(
    status: Obj,
    condition: str,
    reason: str,
    message: str,
    now: str,
    *,
    value: str = "True",
    generation: int | None = None,
) -> bool:
    """Set a condition and return whether it changed. The condition's time changes only with its status."""
    current = find(status, condition)
    new: Obj = {"type": condition, "status": value, "reason": reason, "message": message}
    if current is not None and all(current.get(field) == text for field, text in new.items()):
        return False
    kept = current is not None and current["status"] == value
    new["lastTransitionTime"] = current["lastTransitionTime"] if kept and current else now
    if generation is not None:
        new["observedGeneration"] = generation
    if current is not None:
        current.clear()
        current.update(new)
    else:
        status.setdefault("conditions", []).append(new)
    return True
