"""Cause of an exception without a rule: the exception's last line, with file and line of the user's code."""

from __future__ import annotations

from tui.domain.core.text import clip
from tui.domain.diagnosis.evidence import Evidence

MOST_CHARACTERS = 200
_CODE = frozenset(
    {
        "NameError", "UnboundLocalError", "AttributeError", "TypeError", "SyntaxError", "IndentationError",
        "TabError", "RecursionError", "ZeroDivisionError", "NotImplementedError", "IndexError", "KeyError",
        "AssertionError", "ValueError", "RuntimeError", "Exception", "StopIteration", "OverflowError",
    }
)  # fmt: skip
CERTAIN = frozenset(
    {
        "NameError", "UnboundLocalError", "AttributeError", "TypeError", "SyntaxError", "IndentationError",
        "TabError", "RecursionError", "NotImplementedError",
    }
)  # fmt: skip
"""Exceptions that are errors of the code, regardless of where the code raises them."""
_OTHER = {
    "ModuleNotFoundError": ("package", "no", "Build the package into the image."),
    "ImportError": ("package", "no", "Pin the versions that the code was written for."),
    "FileNotFoundError": ("data", "no", "Check the path, and that every replica has the data."),
    "IsADirectoryError": ("data", "no", "Check the path."),
    "NotADirectoryError": ("data", "no", "Check the path."),
    "UnicodeDecodeError": ("data", "no", "Fix or skip the file."),
    "JSONDecodeError": ("data", "no", "Fix or skip the file."),
    "ParserError": ("data", "no", "Fix or skip the file."),
    "UnpicklingError": ("checkpoint", "change", "Resume from the previous checkpoint."),
    "PermissionError": ("permission", "no", "Give the job's account permission for the path."),
    "MemoryError": ("memory-host", "change", "Use a larger or highmem machine, or fewer loader workers."),
    "ConnectionRefusedError": (
        "network",
        "yes",
        "Check that the other process runs, and check its address and port.",
    ),
    "ConnectionError": ("network", "yes", "Check the network of the replica; launch again."),
    "ConnectTimeout": ("network", "yes", "Check the network of the replica; launch again."),
    "TimeoutError": ("timeout", "yes", "Check what the program waited for; raise the timeout."),
    "ValidationError": ("config-flag", "no", "Fix the value that the message names."),
    "ArgumentError": ("config-flag", "no", "Fix the argument that the message names."),
    "ConfigAttributeError": ("config-flag", "no", "Fix the key that the message names."),
}
_ADVICE = "Fix the line that the traceback names."


def exception_cause(evidence: Evidence) -> str:
    """Return the exception and its message, with the user's file and line if known."""
    message = " ".join(evidence.message.split())
    words = f"{evidence.exception}: {message}" if message else evidence.exception
    if not evidence.exception:
        words = (
            "An exception whose last line is missing" if evidence.frames else " ".join(evidence.text.split())
        )
    frame = evidence.frame or (evidence.frames[-1] if evidence.frames else None)
    where = (
        f" ({frame.words}{f' in {frame.function}' if frame.function else ''})" if frame is not None else ""
    )
    return clip(words, MOST_CHARACTERS) + where


def exception_family(evidence: Evidence) -> tuple[str, str, str]:
    """Return the family, retry and next step of an exception without a rule."""
    known = _OTHER.get(evidence.exception)
    if known is not None:
        return known
    if evidence.exception in _CODE or evidence.frame is not None:
        return "code", "no", _ADVICE
    package = evidence.frames[-1].package if evidence.frames else ""
    advice = (
        f"Read the traceback: it ends in the package {package}."
        if package
        else ("Read the lines around the error.")
    )
    return "code", "no", advice
