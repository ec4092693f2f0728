"""Implements `vxtui profiles import`."""

from __future__ import annotations

import os
import posixpath
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from tui.backends.interface import Backend, NotFound
from tui.config.regular_file import read_regular
from tui.domain.core.job import Job
from tui.domain.document.source import ProblemSeverity, decode
from tui.domain.interchange import ConfigFile, Imported, from_resource, from_text
from tui.domain.interchange.gcloud import Config
from tui.domain.interchange.gcloud_script import Surroundings, is_command
from tui.domain.profile import Problem, ProfileInvalid, inspect
from tui.domain.profile.autofix import fixable
from tui.domain.shell import Outside
from tui.domain.vertex.dry_run import problem_json
from tui.interrupts import ending_at_once
from tui.store.profiles.files import MAX_BYTES
from tui.verbs.output import note, out, print_json
from tui.verbs.run import Run, VerbFailure, find_job, value_of, verb

_FIXES = {
    "EXISTS": "Choose another --name, or use --force to overwrite the profile.",
    "INVALID_ARGUMENT": "Choose another name with --name.",
}


@click.command("import")
@click.argument("source", nargs=-1, required=True)
@click.option("--name", metavar="NAME", help="Name of the profile; by default the job's name.")
@click.option(
    "--command", "command", metavar="NUMBER|NAME", default="",
    help="Command of a script with several commands, by number or display name.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite a profile with that name.")
@verb("profile.import")
async def import_profile(
    run: Run, source: tuple[str, ...], name: str | None, command: str, force: bool
) -> None:
    """Write a profile from SOURCE.

    SOURCE is a file (a gcloud config, a REST body, a shell script that calls gcloud; it is not run), `-` for
    stdin, a job's id or name, or a command line: vxtui profiles import -- gcloud ai custom-jobs create …
    """
    imported = await _imported(run, source, command)
    chosen = name or imported.name
    outcome = await run.profile_operations().write(chosen, imported.text, force=force)
    path = value_of(outcome, _FIXES)
    for line in imported.notes:
        note(f"note: {line}")
    problems = inspect(imported.text, str(path), chosen)
    for problem in problems:
        if problem.severity is not ProblemSeverity.NOTE:
            note(f"{problem.severity}: {problem}")
    if run.json:
        shown = [problem_json(p) for p in problems]
        print_json({"name": chosen, "path": str(path), "notes": list(imported.notes), "problems": shown})
    else:
        out(str(path))


async def _imported(run: Run, source: tuple[str, ...], command: str) -> Imported:
    """Import the profile that `source` describes. Raises VerbFailure."""
    text = source[0] if len(source) == 1 else shlex.join(source)
    try:
        with ending_at_once():
            imported = _read(text, command)
        if imported is None:
            async with run.backend() as backend:
                job = await _job(backend, text)
                imported = from_resource(await backend.job_service(job.name).spec(job.name))
        return imported
    except ProfileInvalid as error:
        raise VerbFailure(str(error), fix=_way_out(error.problems), code="INVALID_PROFILE") from error
    except OSError as error:
        raise VerbFailure(
            f"{error.filename or 'The source'} can't be read: {error.strerror or error}.", code="UNREADABLE"
        ) from error


async def _job(backend: Backend, reference: str) -> Job:
    """Return the job of this id or name. Raises NotFound or VerbFailure."""
    try:
        return await find_job(backend, reference)
    except NotFound:
        if _is_folder(reference):
            raise _folder(reference, "No job has this name, and it") from None
        raise


def _is_folder(reference: str) -> bool:
    return Path(reference).expanduser().is_dir()


def _folder(path: str, reason: str) -> VerbFailure:
    return VerbFailure(
        f"{path}: {reason} is a folder.",
        fix="Name a file in the folder, or a job by id or name.",
        code="USAGE",
    )


def _way_out(problems: Sequence[Problem]) -> str:
    # A profile from a command line or a job has no file with lines to fix.
    if any(fixable(p) and p.line and Path(p.file).is_file() for p in problems):
        return "Nothing was written. `vxtui profiles validate FILE --fix` applies the automatic fixes."
    return "Nothing was written."


def _read(source: str, command: str) -> Imported | None:
    """Return the profile from stdin, a command line or a file; `None` if `source` can only be a job."""
    if source == "-":
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise OSError(f"stdin has more than {MAX_BYTES:,} bytes")
        return _of_text(decode(data, "stdin"), "stdin", Path.cwd(), command)
    if is_command(source):
        return _of_text(source, "the command line", Path.cwd(), command)
    path = Path(source).expanduser()
    if path.exists() and not path.is_dir():
        return _of_text(_decoded(path), str(path), path.absolute().parent, command)
    if "/" in source and path.is_dir():
        raise _folder(source, "it")
    if path.suffix in {".yaml", ".yml", ".json", ".sh"}:
        raise VerbFailure(f"The file {path} does not exist.", code="NOT_FOUND", exit_code=3)
    return None


def _decoded(path: Path) -> str:
    return decode(read_regular(path, MAX_BYTES), str(path))


def _of_text(text: str, file: str, folder: Path, command: str) -> Imported:
    """Import a text. Its file references are relative to `folder`."""

    return from_text(text, file, configs(folder), surroundings(folder, command))


def configs(folder: Path) -> Config:
    """Return a reader of the `--config` files that a command in `folder` names."""

    def config(name: str) -> ConfigFile:
        path = folder / Path(name).expanduser()
        return ConfigFile(_decoded(path), str(path))

    return config


def surroundings(folder: Path, command: str = "") -> Surroundings:
    """Return the surroundings of a script in `folder`."""

    def read(name: str) -> str:
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise Outside(str(path))
        return _decoded(path)

    return Surroundings(posixpath.join(folder, ""), os.environ, read, command)
