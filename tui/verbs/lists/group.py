"""A group of verbs whose first word may also be one of the list."""

from __future__ import annotations

from typing import Any

import click


class ListGroup(click.Group):
    """`schedules nightly` is `schedules list nightly`, and so is no word at all."""

    def __init__(self, *args: Any, first: str = "list", **more: Any) -> None:
        """`first` is the command that lists all or shows one."""
        super().__init__(*args, **more)
        self._first = first

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args.insert(0, self._first)
        return super().parse_args(ctx, args)
