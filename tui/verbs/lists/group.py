"""A command group whose first argument may also name a listed resource."""

from __future__ import annotations

from typing import Any

import click


class ListGroup(click.Group):
    """`schedules nightly` means `schedules list nightly`; `schedules` alone means `schedules list`."""

    def __init__(self, *args: Any, first: str = "list", **keywords: Any) -> None:
        """Set the command that lists all resources or shows one."""
        super().__init__(*args, **keywords)
        self._first = first

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args.insert(0, self._first)
        return super().parse_args(ctx, args)
