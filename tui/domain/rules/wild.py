"""Names in the wild that the service never had."""

from __future__ import annotations

from typing import Any

from tui.domain.rules.base import Finding, Path


def known_wrong(path: Path, value: Any) -> Finding | None:
    """What is wrong with a field that does not exist, or an enum's value; None where nothing is known.

    `path` is that of the file in camelCase, `value` what stands there before any check.
    """
    return None
