"""Implements `vxtui doctor`."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import platform
import sqlite3
import sys
from pathlib import Path

import click

from tui.actions.registry import key_problems
from tui.backends.interface import ServiceHealth
from tui.config.loader import config_file
from tui.config.paths import config_dir, shipped
from tui.config.settings import Settings, choose_context, profile_folder
from tui.config.themes import known_themes
from tui.emulator.client import default_kubernetes_state, default_state_dir, server_status
from tui.store.profiles.library import entries
from tui.verbs.output import out, print_json
from tui.verbs.run import READS, Run, verb


@click.command()
@verb(READS)
async def doctor(run: Run) -> int:
    """Check everything that a launch needs. The exit code is 0 if everything works, 5 otherwise."""
    context = choose_context(run.settings, run.context_name)
    results = [_python(), _terminal(), _settings(run.settings), *_profiles(run), _trainer()]
    if context.kind == "local":
        results.append(await asyncio.to_thread(_emulator))
    async with _opened(run) as backend:
        results += await backend.check_health()
    if run.json:
        lines = [{"what": r.name, "ok": r.ok, "detail": r.detail, "fix": r.fix} for r in results]
        print_json({"context": context.name, "checks": lines})
    else:
        width = max(len(r.name) for r in results)
        for r in results:
            out(f"{'✓' if r.ok else '✗'} {r.name:<{width}}  {r.detail}")
            if r.fix and not r.ok:
                out(f"  {'':<{width}}  → {r.fix}")
    return 0 if all(r.ok for r in results) else 5


def _opened(run: Run):  # type: ignore[no-untyped-def]
    """Return the unconnected backend, because an unreachable service is a result here, not an error."""
    from contextlib import aclosing

    from tui.backends.factory import open_backend

    return aclosing(open_backend(choose_context(run.settings, run.context_name), run.settings))


def _python() -> ServiceHealth:
    ok = sys.version_info >= (3, 11)
    return ServiceHealth("python", ok, platform.python_version(), "Install Python 3.11 or newer.")


def _terminal() -> ServiceHealth:
    term = os.environ.get("TERM", "")
    if not sys.stdout.isatty():
        return ServiceHealth(
            "terminal", True, "the output is not a terminal: verbs work, but the screen needs one"
        )
    ok = bool(term) and term != "dumb"
    colours = os.environ.get("COLORTERM") or "256 colours or fewer"
    return ServiceHealth(
        "terminal", ok, f"{term or 'unknown'}, {colours}", "Set TERM, e.g. to xterm-256color."
    )


def _settings(settings: Settings) -> ServiceHealth:
    path = config_file()
    known, wrong = known_themes([shipped("themes"), config_dir() / "themes"])
    wrong += key_problems(settings.keys)
    if settings.theme and settings.theme not in known:
        wrong.append(f"The theme {settings.theme} does not exist. Available themes: {', '.join(known)}.")
    if wrong:
        return ServiceHealth("settings", False, f"{path}: {' '.join(wrong)}", f"Edit {path}.")
    return ServiceHealth(
        "settings", True, str(path) if path.exists() else f"all defaults ({path} does not exist)"
    )


def _profiles(run: Run) -> list[ServiceHealth]:
    profiles = entries(profile_folder(run.settings))
    bad = [(e, wrong) for e in profiles if (wrong := e.check_rules(run.context)[0])]
    summary = ServiceHealth("profiles", not bad, f"{len(profiles) - len(bad)} of {len(profiles)} are valid")
    return [
        summary,
        *(ServiceHealth(f"profile {e.name}", False, wrong[0], f"Edit {e.path}.") for e, wrong in bad),
    ]


def _trainer() -> ServiceHealth:
    installed = importlib.util.find_spec("torch") is not None
    detail = (
        "torch is installed: local jobs can train"
        if installed
        else "torch is missing: local jobs can't train"
    )
    return ServiceHealth("trainer", installed, detail, "pip install 'vxtui[trainer]'")


def _emulator() -> ServiceHealth:
    state = default_state_dir()
    info = server_status(state)
    cluster = default_kubernetes_state()
    files = [] if info else [state.database, state.log_database, state.bucket_database]
    files += [] if server_status(cluster) else [cluster.database]
    damaged = [str(path.relative_to(state.root)) for path in files if _damaged(path)]
    if damaged:
        return ServiceHealth("emulator", False, f"damaged: {', '.join(damaged)}", "`vxtui emulator repair`")
    detail = f"running, pid {info['pid']}" if info else "not running; it starts when needed"
    return ServiceHealth("emulator", True, detail)


def _damaged(path: Path) -> bool:
    """Return whether a database of the stopped emulator has a damaged page."""
    if not path.exists():
        return False
    try:
        with contextlib.closing(sqlite3.connect(path)) as db:
            row = db.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError:
        # An unreadable file is no sign of damage.
        return False
    except sqlite3.DatabaseError:
        return True
    return row is None or row[0] != "ok"
