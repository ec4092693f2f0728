"""Exit codes and signals, by the program that reports them."""

from __future__ import annotations

import re
import signal

from tui.domain.core.diagnosis import explain_exit
from tui.domain.diagnosis.verdict import Verdict

REPLICA = re.compile(
    r"replica (?P<replica>[\w.-]+-\d+) (?:ran out[ -]of[ -]memory and )?"
    r"exited with a non-zero status of (?P<code>\d+)",
    re.IGNORECASE,
)
_PLACES = {
    "local": "`dmesg` of this machine shows whether the kernel killed it",
    "vertex": "Use a larger or highmem machine, or fewer data loader workers",
    "cluster": "`kubectl describe pod` shows OOMKilled, an eviction or a preemption; raise the memory limit",
    "": "Look for the kernel's OOM record; use a larger or highmem machine",
}

_SIGNALS = {
    9: (
        "was killed ({name}), often because the machine's memory was used up",
        "memory-host", "change", "", "killed ({name})", 0.55,
    ),
    15: (
        "was ended from outside ({name})", "preemption", "yes",
        "Look for a preemption, a cancel or another failed replica; resume from the checkpoint.",
        "ended ({name})", 0.4,
    ),
    7: (
        "died of a bus error ({name}), often because /dev/shm was too small", "memory-host", "change",
        "Use num_workers=0 or the file_system sharing strategy, or give /dev/shm more space.",
        "bus error", 0.55,
    ),
}  # fmt: skip
_NATIVE = (
    "crashed in native code ({name})", "code", "change",
    "Set PYTHONFAULTHANDLER=1 to see where; check the versions of compiled extensions.",
    "crashed ({name})", 0.5,
)  # fmt: skip


def exit_verdict(code: int, replica: str, place: str, *, signal: bool = True) -> Verdict:
    """Return the verdict on a replica's end that no line explains; its cause is "" if the code has no known
    meaning."""
    subject = replica or "A process"
    if not signal:
        return _exit(code, subject)
    name = _name(code)
    words, family, retry, advice, short, confidence = _SIGNALS.get(code, _NATIVE)
    if code == 9:
        advice = f"{_PLACES.get(place, _PLACES[''])}."
    cause, short = f"{subject} {words.format(name=name)}", short.format(name=name)
    return Verdict(cause, family, retry=retry, next=advice, short=short, confidence=confidence)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


_FAMILIES = {
    69: ("storage-gcs", "yes"),
    71: ("hardware-gpu", "node"),
    74: ("checkpoint", "change"),
    75: ("preemption", "yes"),
    76: ("network", "yes"),
    77: ("launcher", "yes"),
    126: ("image", "no"),
    127: ("image", "no"),
    128: ("image", "no"),
    2: ("config-flag", "no"),
}


def _exit(code: int, subject: str) -> Verdict:
    """Return the verdict on an exit code that the kernel, a shell or the trainer documents."""
    own = code - 128 if code - 128 in _FAMILIES and code > 190 else code
    if own not in _FAMILIES:
        return Verdict("")
    family, retry = _FAMILIES[own]
    return Verdict(
        f"{subject} ended with code {code}: {explain_exit(code)}",
        family,
        retry=retry,
        next="Check the command and its arguments."
        if family in {"image", "config-flag"}
        else "Read the last lines of its log.",
        short=f"exit {code}",
        confidence=0.45 if own == 2 else 0.6,
    )
