"""Lines of logs that several tests of the diagnosis read."""

from __future__ import annotations

HEAD = "Traceback (most recent call last):"
FATAL = [
    HEAD,
    '  File "/app/losses.py", line 12, in forward',
    "    return mat @ x",
    "TypeError: unsupported operand type(s) for @: 'int' and 'list'",
]
