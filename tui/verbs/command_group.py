"""The verbs and options of `vxtui`; a verb is imported when it is called."""

from __future__ import annotations

import difflib
import errno
import importlib
import os
import sys
from pathlib import Path
from typing import Any

import click

from tui import __version__

UNWRITABLE = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Errors of an output that ends early: a closed pipe, or a disk or file without room."""
# Verb → its module and its line in `--help`, so that help loads none of the modules.
VERBS = {
    "jobs": ("tui.verbs.jobs", "List jobs over all regions of the context."),
    "describe": ("tui.verbs.jobs", "Show one job with its state, pools, replicas and progress."),
    "tasks": ("tui.verbs.tasks", "List the parts of a job, e.g. a tuning job's trials, the best first."),
    "compare": (
        "tui.verbs.comparison.verb",
        "Compare two runs: the parameters, results and tasks that differ.",
    ),
    "launch": ("tui.verbs.launch", "Launch a profile."),
    "logs": ("tui.verbs.log.verb", "Print or follow the log of every replica, merged in time order."),
    "diagnose": ("tui.verbs.log.diagnose", "Say why a run failed, from a job or from any log."),
    "metrics": ("tui.verbs.metrics", "Show CPU, memory, network and GPU of each replica."),
    "shell": ("tui.verbs.programs.shell", "Open a shell in a running replica, or run a command there."),
    "stacks": ("tui.verbs.programs.stacks", "Show where the Python processes of each replica wait."),
    "tensorboard": ("tui.verbs.programs.tensorboard", "Show a job's events in the installed TensorBoard."),
    "cancel": ("tui.verbs.job_changes", "Cancel a job."),
    "delete": ("tui.verbs.job_changes", "Delete an ended job."),
    "suspend": ("tui.verbs.job_changes", "Suspend a job in a cluster: its pods end."),
    "resume": ("tui.verbs.job_changes", "Resume a suspended job."),
    "scale": ("tui.verbs.job_changes", "Change the number of workers of a job in a cluster."),
    "rerun": ("tui.verbs.job_changes", "Run a pipeline again; succeeded tasks come from the cache."),
    "models": ("tui.verbs.serving.verbs", "List the models of the registry, or the versions of a model."),
    "endpoints": ("tui.verbs.serving.verbs", "List endpoints; deploy, split the traffic, roll back."),
    "schedules": ("tui.verbs.schedules.verbs", "List, create, pause, resume and delete schedules."),
    "resources": ("tui.verbs.resources.verbs", "List, create, reboot and delete persistent resources."),
    "profiles": ("tui.verbs.profiles.group", "List, show, validate, import and export profiles."),
    "export": ("tui.verbs.export", "Print a job or a profile as a gcloud command, a REST call or Python."),
    "quotas": ("tui.verbs.quotas", "Show training quotas: limit, usage and free amount."),
    "prices": ("tui.verbs.prices", "Show hourly machine prices; `refresh` reads current prices."),
    "guard": ("tui.verbs.guard.verbs", "Watch jobs while no console is open, and send alerts."),
    "emulator": ("tui.verbs.emulator.group", "Start, stop and inspect the local emulator; inject faults."),
    "contexts": ("tui.verbs.contexts", "List contexts."),
    "doctor": ("tui.verbs.doctor", "Check what works, what does not, and how to fix it."),
}


class Verbs(click.Group):
    """A group whose verbs are imported when one is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, _ = VERBS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        near = difflib.get_close_matches(args[0], VERBS, 1) if args[0] not in VERBS else []
        if near and not args[0].startswith("-"):
            ctx.fail(f"No such verb {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(name, text) for name, (_, text) in VERBS.items()])


@click.group(
    cls=Verbs,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="vxtui")
@click.option("--context", "context_name", metavar="NAME", help="Context to open; see `vxtui contexts`.")
@click.option("--read-only", is_flag=True, help="Refuse every action that changes something.")
@click.option("--slow", is_flag=True, help="For a slow connection: few frames a second, no animations.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII characters only.")
@click.option(
    "--output", type=click.Choice(["diff", "stock"]), help="Changed cells only, or Textual's output."
)
@click.pass_context
def cli(
    ctx: click.Context,
    *,
    context_name: str | None,
    read_only: bool,
    slow: bool,
    ascii_only: bool,
    output: str | None,
) -> None:
    """A terminal console for training clusters. Without a verb it opens the screen."""
    ctx.obj = {"context": context_name, "read_only": read_only}
    if ctx.invoked_subcommand is None:
        from tui.verbs.screen import screen

        code = screen(
            context_name or "", read_only=read_only, slow=slow, ascii_only=ascii_only, output=output or ""
        )
        ctx.exit(code)


def run() -> int:
    """Run the command line; return the exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # The caller closed the stream.
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - until the end
    code = 0
    try:
        code = _run()
        # The interpreter would print the error of its own last flush.
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader closed the pipe. Write nothing more while the interpreter ends.
        sys.stdout = None  # type: ignore[assignment]
    except OSError as error:
        from tui.verbs.output import print_error

        sys.stdout = None  # type: ignore[assignment]
        message = f"{error.filename or 'The output'} can't be written: {error.strerror or error}."
        code = print_error("UNWRITABLE", message, "", 5, as_json=False)
    return code


def _run() -> int:
    """Run the verb and print its failure. Return the exit code. Raises OSError for unwritable output."""
    code: Any
    try:
        code = cli.main(standalone_mode=False)
    except click.exceptions.Exit as end:
        code = end.exit_code
    except (click.Abort, KeyboardInterrupt):
        from tui.verbs.output import print_interrupted

        code = print_interrupted(as_json="--json" in sys.argv)
    except SystemExit as end:
        # click exits with 1 if the reader closed the pipe, and with 0 after shell completion.
        if end.code != 1:
            raise
        raise BrokenPipeError from end
    except click.ClickException as error:
        code = _usage(error)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in UNWRITABLE:
            raise
        from tui.verbs.output import crash

        code = crash(error)
    return code if isinstance(code, int) else 0


def _usage(error: click.ClickException) -> int:
    if "--json" in sys.argv:
        from tui.verbs.output import print_error

        return print_error("USAGE", error.format_message(), "See `vxtui --help`.", 2, as_json=True)
    error.show()
    return 2
