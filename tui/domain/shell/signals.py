"""How a body is left before its end."""

from __future__ import annotations


class Exit(Exception):
    """`exit`."""

    def __init__(self, status: int | None = 0) -> None:
        super().__init__(status)
        self.status = status


class Return(Exception):
    """`return`."""

    def __init__(self, status: int | None = 0) -> None:
        super().__init__(status)
        self.status = status


class Loop(Exception):
    """`break` and `continue`."""

    def __init__(self, levels: int, *, again: bool) -> None:
        super().__init__(levels)
        self.levels, self.again = levels, again
