"""`vxtui profiles validate`: problems of profiles, and their automatic fixes."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from tui.config.paths import shipped
from tui.config.regular_file import read_regular
from tui.config.settings import choose_context, profile_folder
from tui.domain.core.text import plain, sentences
from tui.domain.document.source import ProblemSeverity, decode, dotted, is_json, read
from tui.domain.interchange.gcloud import parse
from tui.domain.interchange.gcloud_script import is_command
from tui.domain.interchange.imports import of_command
from tui.domain.masking import mask_text, secrets_in
from tui.domain.profile import Problem, ProfileInvalid, inspect
from tui.domain.profile.autofix import apply_fixes, fixable
from tui.domain.vertex.rules.misnomers import document_notes
from tui.store.profiles.files import MAX_BYTES
from tui.store.profiles.library import NoProfile, find
from tui.verbs.output import note, out_document, print_json
from tui.verbs.profiles.interchange import configs, surroundings
from tui.verbs.run import USAGE, Run, VerbFailure, assigned, set_option, value_of, verb

DOCUMENT = "docs/PROFILES.md"
"""Source of the rules that concern the file itself rather than the service."""
_COLOURS = {ProblemSeverity.ERROR: "31", ProblemSeverity.WARNING: "33", ProblemSeverity.NOTE: "36"}


@dataclass(frozen=True, slots=True)
class _Where:
    """Parameters, region ("" for the file's own), and whether to check for the emulator."""

    values: Mapping[str, str]
    region: str
    local: bool


@dataclass(frozen=True, slots=True)
class _File:
    """A file as named by the user, and its content."""

    shown: str
    path: Path
    text: str
    command: bool
    broken: tuple[Problem, ...] = ()


@click.command("validate")
@click.argument("profiles", nargs=-1, required=True, metavar="FILE|NAME…")
@set_option
@click.option("--region", default="", metavar="REGION", help="Region to check for instead of the profile's.")
@click.option("--fix", is_flag=True, help="Apply the automatic fixes, and print them as a diff.")
@verb("profile.fix", fix=True)
async def validate(
    run: Run, profiles: tuple[str, ...], assignments: tuple[str, ...], region: str, fix: bool
) -> int:
    """Check profiles against every rule; exit 2 if there is an error.

    A file may be a profile, a gcloud config, a REST body or a gcloud command line. The cloud's rules apply,
    unless --context names a local context.
    """
    where = _where(run, assignments, region)
    files = [_read(run, reference) for reference in profiles]
    problems: list[Problem] = []
    diffs: list[dict[str, Any]] = []
    for file in files:
        left, diff = await _fixed(run, file, where) if fix else (_look(file, where), "")
        problems += left
        if diff:
            diffs.append({"file": file.shown, "diff": diff})
    if run.json:
        print_json({"problems": [_json(p) for p in problems], **({"fixed": diffs} if fix else {})})
    else:
        _say(problems, len(files), diffs, fix)
    return USAGE if any(p.severity is ProblemSeverity.ERROR for p in problems) else 0


def _where(run: Run, assignments: tuple[str, ...], region: str) -> _Where:
    values = assigned(assignments)
    if not run.context_name:
        return _Where(values, region, False)
    context = choose_context(run.settings, run.context_name)
    return _Where(values, region, context.emulated)


def _read(run: Run, reference: str) -> _File:
    """Read the file of a name or path. Raises VerbFailure if the file is missing or unreadable."""
    try:
        path = find(reference, profile_folder(run.settings))
        data = read_regular(path, MAX_BYTES)
    except NoProfile as error:
        fix = "`vxtui profiles list` lists all."
        raise VerbFailure(str(error), fix=fix, code="NOT_FOUND", exit_code=3) from error
    except OSError as error:
        raise VerbFailure(f"{reference} can't be read: {error}", code="INVALID_PROFILE") from error
    shown = reference if Path(reference).expanduser() == path else str(path)
    try:
        text = decode(data, shown)
    except ProfileInvalid as error:
        return _File(shown, path, "", False, tuple(error.problems))
    return _File(shown, path, text, is_command(text) and not _is_document(text))


def _is_document(text: str) -> bool:
    try:
        return isinstance(read(text, "").value, Mapping)
    except ProfileInvalid:
        return False


def _look(file: _File, where: _Where) -> list[Problem]:
    if file.broken:
        return list(file.broken)
    text = file.text if not file.command else _profile_of(file)
    if isinstance(text, list):
        return text
    problems = inspect(text, file.shown, file.path.stem, where.values, region=where.region, local=where.local)
    if file.command:
        # The lines belong to the generated profile instead of the command line; fixes can't be written.
        return [replace(p, line=0, column=0, edits=()) for p in problems]
    return [*problems, *_notes(file)]


def _profile_of(file: _File) -> str | list[Problem]:
    """Convert a command line to a profile, valid or not. Return the problems if it can't be read. File
    references are relative to the command line's own folder."""
    folder = file.path.absolute().parent

    try:
        command = parse(file.text, file.shown, configs(folder), surroundings(folder))
        return json.dumps(of_command(command, file.shown, f"{folder}/"))
    except ProfileInvalid as error:
        return [replace(p, edits=()) for p in error.problems]
    except OSError as error:
        message = f"a file that the command names can't be read: {error}."
        return [Problem(file.shown, 0, "", message, "Put that file next to this one.", "profile.syntax")]


def _notes(file: _File) -> list[Problem]:
    """Return notes about a file whose fields are all correct."""
    if is_json(file.text):
        return []
    try:
        document = read(file.text, file.shown)
    except ProfileInvalid:
        return []
    problems = []
    for remark in document_notes(document.value):
        line, column = document.place(remark.path)
        problems.append(
            Problem(
                file.shown,
                line,
                dotted(remark.path),
                remark.sentence,
                remark.fix,
                remark.rule,
                remark.severity,
                remark.source,
                remark.path,
                column,
            )
        )
    return problems


async def _fixed(run: Run, file: _File, where: _Where) -> tuple[list[Problem], str]:
    """Return the problems left after fixing one file, and the change as a unified diff, or ""."""
    before = _look(file, where)
    if file.command and before:
        note(
            f"{file.shown} is a command line and is not changed; `vxtui profiles import` converts the "
            "command line to a profile."
        )
    if file.command or file.broken or not any(map(fixable, before)):
        return before, ""
    if file.path.resolve().is_relative_to(shipped("profiles").resolve()):
        raise VerbFailure(
            f"{file.path.stem} is a ready-made profile and can't be changed.",
            fix=f"Copy {file.path} to {profile_folder(run.settings)} and fix the copy.",
        )
    text, name = file.text, file.path.stem
    fixed = apply_fixes(text, file.shown, name, where.values, region=where.region, local=where.local)
    if fixed.text == text:
        return before, ""
    value_of(await run.profile_operations().fix(file.path, fixed.text))
    diff = difflib.unified_diff(
        text.splitlines(keepends=True), fixed.text.splitlines(keepends=True), file.shown, file.shown
    )
    known = _secrets(text) | _secrets(fixed.text)
    shown = "".join(mask_text(line, known) for line in _ended(diff))
    return [*fixed.remaining, *_notes(_File(file.shown, file.path, fixed.text, False))], shown


def _secrets(text: str) -> set[str]:
    try:
        return secrets_in(read(text, "").value)
    except ProfileInvalid:
        return set()


def _ended(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


# Output


def _json(problem: Problem) -> dict[str, Any]:
    return {
        "id": problem.id,
        "severity": problem.severity.value,
        "path": problem.field,
        "sentence": mask_text(problem.message),
        "fix": mask_text(problem.fix),
        "source": problem.source or DOCUMENT,
        "file": problem.file,
        "line": problem.line or None,
        "column": problem.column or None,
        "fixable": fixable(problem),
    }


def _say(problems: list[Problem], files: int, diffs: list[dict[str, Any]], fix: bool) -> None:
    colours = sys.stdout.isatty()
    for diff in diffs:
        for line in diff["diff"].splitlines():
            out_document(_painted(plain(line), {"+": "32", "-": "31", "@": "36"}.get(line[:1], ""), colours))
    for problem in problems:
        out_document(_line(problem, colours))
    note(_summary(problems, files, fix))


def _line(problem: Problem, colours: bool) -> str:
    """Return `file:line:column: severity id: sentence fix`."""
    place = [problem.file, *(str(n) for n in (problem.line, problem.column) if n)]
    # A rule's message names its field; a message about the file itself, or without a line, does not.
    leaf = problem.field.rpartition(".")[2] if problem.id.startswith("profile.") else ""
    leaf = leaf if problem.line else problem.field
    text = mask_text(sentences(problem.message, problem.fix))
    message = f"{leaf}: {text}" if leaf else text
    severity = _painted(problem.severity.value, _COLOURS[problem.severity], colours)
    return f"{plain(':'.join(place))}: {severity} {problem.id}: {plain(message)}"


def _painted(text: str, code: str, colours: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if colours and code else text


def _summary(problems: list[Problem], files: int, fix: bool) -> str:
    """Return e.g. `2 errors, 1 warning in 3 files; --fix fixes 2 of them.`"""
    counts = [(s, sum(p.severity is s for p in problems)) for s in ProblemSeverity]
    counts_text = ", ".join(f"{n} {s.value}{'s' if n > 1 else ''}" for s, n in counts if n) or "no problems"
    able = sum(map(fixable, problems))
    offer = f"; --fix fixes {able} of them" if able and not fix else ""
    return f"{counts_text} in {files} file{'s' if files > 1 else ''}{offer}."
