"""What several tests share with test_keys."""

from __future__ import annotations

import re


def nothing_but_the_screen(raw: bytes) -> bool:
    """Outside the alternate screen only control sequences were written, no text."""
    outside = re.sub(rb"\x1b\[\?1049h.*\x1b\[\?1049l", b"", raw, flags=re.DOTALL)
    left = re.sub(
        rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[P\]][^\x1b\x07]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]", b"", outside
    )
    assert left.strip() == b"", left
    return True
