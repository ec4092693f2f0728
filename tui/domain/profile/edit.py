"""Edits a profile's file and leaves all other text unchanged; writes new files from plain values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from tui.domain.document.document_edit import REMOVED, Edit, edited
from tui.domain.document.sharing import places
from tui.domain.document.source import Document, Path, ProfileInvalid, camel, escaped, is_json, read
from tui.domain.document.tree import NotYaml, parse_all
from tui.domain.profile.parameters import fill, read_parameters, references
from tui.domain.spec import write
from tui.domain.spec.field_table import HEADER, JOB_SPEC, stands_alone
from tui.domain.spec.splice import CannotSplice, splice, splice_shared
from tui.domain.spec.values import REFERENCE


def apply(text: str, file: str, edits: Sequence[Edit], *, everywhere: bool = False) -> str:
    """Return the text of a profile after `edits`, made one after another.

    Paths are camelCase paths of the file; a key that the file spells in snake_case matches too. Comments,
    order, quotes, anchors and the layout of unchanged parts stay; a JSON file stays JSON.

    - A value that is only a `${name}` reference stays a reference: the edit changes the parameter's default,
      if the parameter is used nowhere else and accepts the value. Otherwise the value replaces the reference.
    - A value that an anchor or `<<` shares with other paths changes only at the edited path: the path merges
      the shared map with `<<` and overrides the key, or gets a copy first if `<<` can't express the change.
      With `everywhere`, the value changes at all paths that share it, at the anchor.
    - If the file's top level is the job's spec, an edit of `displayName`, `labels`, … first moves the
      spec under `jobSpec`; the paths of later edits may then begin with `jobSpec` or not.

    The result's values are `edited(values, edits)` after filling in the parameters' defaults.

    Raises:
        ProfileInvalid: if the text can't be read, or a path does not exist, with its location.
    """
    mark, text = ("\ufeff", text[1:]) if text.startswith("\ufeff") else ("", text)
    if len(parts := documents(text)) > 1:
        return mark + _of_several(parts, file, edits, everywhere)
    if everywhere:
        try:
            changed = text
            for edit in edits:
                changed = _apply(changed, file, edit, everywhere=True)
            return mark + changed
        except CannotSplice:
            edits = [step for same_edits in shared(text, file, edits) for step in same_edits]
    for edit in edits:
        text = _apply(text, file, edit)
    return mark + text


def documents(text: str) -> list[str]:
    """Split the text before each of its documents. A single document, or unreadable text, is one part."""
    try:
        parsed = parse_all(text.removeprefix("\ufeff"))
    except NotYaml:
        return [text]
    if len(parsed) < 2:
        return [text]
    lines = text.splitlines(keepends=True)
    starts = [0, *(document.line - 1 for document in parsed[1:]), len(lines)]
    return ["".join(lines[a:b]) for a, b in pairwise(starts)]


def _of_several(parts: list[str], file: str, edits: Sequence[Edit], everywhere: bool) -> str:
    """Edit a text of several documents; paths begin with the number of a document."""
    places = [i for i, part in enumerate(parts) if not all(document.empty for document in parse_all(part))]
    edited_parts = list(parts)
    for edit in edits:
        if not edit.path or not isinstance(edit.path[0], int) or edit.path[0] >= len(places):
            raise ProfileInvalid([Document(file, None).problem(edit.path, "no document has this path.")])
        i = places[edit.path[0]]
        edited_parts[i] = apply(
            edited_parts[i], file, [replace(edit, path=edit.path[1:])], everywhere=everywhere
        )
    return (
        "".join(part if part.endswith("\n") else part + "\n" for part in edited_parts[:-1]) + edited_parts[-1]
    )


def shared(text: str, file: str, edits: Sequence[Edit]) -> list[list[Edit]]:
    """Return the edits as changes of single values, each with the same change at all paths that share the
    value. The change of the edited path comes first; the only change if the value is not shared. Raises
    ProfileInvalid like `apply`."""
    text = text.removeprefix("\ufeff")
    if len(documents(text)) > 1:
        # An anchor of one document is unknown in another.
        return [[edit] for edit in edits]
    document = read(text, file)
    shared_edits = []
    for edit in edits:
        text, headed = _with_header(text, file, document.value, edit)
        document = replace(document, value=headed)
        for step in _steps_of(document, edit):
            paths = [step.path] if is_json(text) else places(text, step)
            shared_edits.append([replace(step, path=path) for path in paths])
            document = replace(document, value=edited(document.value, [step]))
    _add_beside_removed(shared_edits)
    return shared_edits


def _add_beside_removed(shared_edits: list[list[Edit]]) -> None:
    """Add the replacement of a removed value, under another key, at every path of the removal."""
    removed: dict[Path, list[Path]] = {}
    for same_edits in shared_edits:
        edit = same_edits[0]
        parent = edit.path[:-1]
        if edit.value is REMOVED:
            removed[parent] = [step.path[:-1] for step in same_edits[1:]]
        elif len(same_edits) == 1 and not edit.insert:
            same_edits += [replace(edit, path=(*p, edit.path[-1])) for p in removed.get(parent, ())]


def render_new(value: Mapping[str, Any]) -> str:
    """Write a profile file from plain values, with its fields in the order of the reference. Texts that
    resemble a reference are written unchanged: `${name}` means the parameter."""
    return "\n".join(write.block(write.in_order(value))) + "\n"


def _apply(text: str, file: str, edit: Edit, *, everywhere: bool = False) -> str:
    text, value = _with_header(text, file, read(text, file).value, edit)
    document = read(text, file)
    for step in _steps_of(document, edit):
        if is_json(text):
            value = edited(value, [step])
            text = _as_json(text, value)
        elif everywhere:
            value = edited(value, [replace(step, path=path) for path in places(text, step)])
            text = _at_the_anchor(text, step, value)
        else:
            value = edited(value, [step])
            text = _as_yaml(text, step, value)
    return text


def _steps_of(document: Document, edit: Edit) -> list[Edit]:
    """Return the edit as changes of single values with existing parents, in the file's spelling."""
    path = edit.path
    if path and str(path[0]) in JOB_SPEC.fields and _top(document.value, "jobSpec") in document.value:
        path = ("jobSpec", *path)
    spelled = document.spelled(path)
    if spelled in document.other_types and isinstance(edit.value, str):
        # The text may need quotes that the file lacks.
        return [Edit(spelled, edit.value)]
    try:
        return list(_steps(document.value, replace(edit, path=path)))
    except LookupError as error:
        message = f"the path can't be changed: {error}."
        raise ProfileInvalid([document.problem(path, message)]) from error


def _at_the_anchor(text: str, step: Edit, value: Any) -> str:
    """Make the change at all paths that share the value. Raises CannotSplice if no single change of the text
    gives `value`."""
    try:
        changed = splice_shared(text, step)
        if same(read(changed, "").value, value):
            return changed
    except (NotYaml, ProfileInvalid):
        pass
    raise CannotSplice("not a single location in the text")


def _as_yaml(text: str, step: Edit, value: Any) -> str:
    """Make the change in place; rewrite a larger part if the layout requires it."""
    for end in range(len(step.path), -1, -1):
        path = step.path[:end]
        part = step if end == len(step.path) else Edit(path, _at(value, path))
        try:
            changed = splice(text, part)
            if same(read(changed, "").value, value):
                return changed
        except (CannotSplice, NotYaml, ProfileInvalid):
            pass
    return render_new(value)


def _as_json(text: str, value: Any) -> str:
    """Return JSON in the layout of `text`: with its indent, or on one line."""
    indented = re.search(r"\{\s*?\n([ \t]+)", text)
    indent = indented[1] if indented else None
    ending = "\n" if text.endswith("\n") else ""
    return escaped(json.dumps(value, indent=indent, ensure_ascii=False)) + ending


def _at(value: Any, path: Path) -> Any:
    for part in path:
        value = value[part]
    return value


# Conversion of an edit to steps that change something


def _steps(value: dict[str, Any], edit: Edit) -> Iterator[Edit]:
    """Yield an edit as changes of single values with existing parents, in the file's spelling."""
    here: Any = value
    reached: Path = ()
    for depth, part_given in enumerate(edit.path):
        last = depth == len(edit.path) - 1
        part = _spelled(here, part_given, reached)
        there = _has(here, part)
        reached = (*reached, part)
        if last and edit.insert and isinstance(here, list) and edit.value is not REMOVED:
            yield Edit(reached, edit.value, insert=True)
            return
        if not there or (here[part] is None and not last):
            if edit.value is not REMOVED:
                yield Edit(reached, _nested(edit.path[depth + 1 :], edit.value))
            return
        here = here[part]
    if edit.value is REMOVED:
        yield Edit(reached, {} if not reached else REMOVED)
    else:
        yield from _differences(here, edit.value, reached, _Filling(value))


def _has(here: Any, part: str | int) -> bool:
    """Return whether the path has a value. Raises LookupError if the path can't have a value."""
    if isinstance(here, dict) and isinstance(part, str):
        return part in here
    if isinstance(here, list) and isinstance(part, int) and 0 <= part <= len(here):
        return part < len(here)
    raise LookupError(f"{part!r} can't exist in {'a list' if isinstance(here, list) else 'this value'}")


def _nested(path: Path, value: Any) -> Any:
    """Wrap `value` in the mappings and lists of `path`."""
    if not path:
        return value
    if isinstance(path[0], int):
        if path[0]:
            raise LookupError(f"element {path[0]} of an empty list")
        return [_nested(path[1:], value)]
    return {path[0]: _nested(path[1:], value)}


def _spelled(here: Any, part: str | int, above: Path) -> str | int:
    """Return the key as spelled in the file; keys of labels and parameters have one spelling."""
    if not isinstance(here, dict) or not isinstance(part, str) or part in here:
        return part
    if above and (above[-1] == "labels" or above[0] == "parameters"):
        return part
    return _top(here, part)


def _top(here: Mapping[str, Any], name: str) -> str:
    return next((key for key in here if camel(key) == camel(name)), name)


class _Filling:
    """The references of a file, and the parameters' defaults."""

    def __init__(self, value: Mapping[str, Any]) -> None:
        settings = value.get("parameters")
        self.on = isinstance(settings, dict)
        self.settings: dict[str, Any] = settings if isinstance(settings, dict) else {}
        self.uses: dict[str, int] = {}
        self.values: dict[str, Any] = {}
        if self.on:
            rest = {k: v for k, v in value.items() if k != "parameters"}
            for name, _ in references(rest):
                self.uses[name] = self.uses.get(name, 0) + 1
                self.values.setdefault(name, f"${{{name}}}")
            known, _ = read_parameters(self.settings, Document("", None), ())
            self.values |= {p.name: p.default for p in known if p.default is not None}

    def alike(self, old: Any, new: Any) -> bool:
        """Return whether `new` equals the current value, literal or filled in; `${` in it is literal."""
        return same(old, new) or (self.on and not _marked(new) and same(fill(old, self.values), new))

    def through_parameter(self, old: Any, new: Any) -> Edit | None:
        """Return the change of the parameter's default that sets the path to its new value."""
        match = REFERENCE.fullmatch(old) if self.on and isinstance(old, str) else None
        if match is None or isinstance(new, dict | list) or new is None:
            return None
        if _marked(new):
            # This path has another reference, which a changed default would not affect.
            return None
        name = match[1]
        if name not in self.settings or self.uses.get(name) != 1:
            return None
        setting = self.settings[name]
        path: Path = ("parameters", name, "default") if isinstance(setting, dict) else ("parameters", name)
        changed = {**setting, "default": new} if isinstance(setting, dict) else new
        known, problems = read_parameters({name: changed}, Document("", None), ())
        fits = not problems and same(known[0].default, new)
        return Edit(path, new) if fits else None


def _differences(old: Any, new: Any, path: Path, filling: _Filling) -> Iterator[Edit]:
    """Yield the smallest edits that turn the filled-in `old` into `new`."""
    if filling.alike(old, new):
        return
    if isinstance(old, dict) and isinstance(new, dict) and old and new:
        names = {_spelled(old, key, path): value for key, value in new.items()}
        for key in old:
            if key not in names:
                yield Edit((*path, key), REMOVED)
        for key, value in names.items():
            if key in old:
                yield from _differences(old[key], value, (*path, key), filling)
            else:
                yield Edit((*path, key), value)
    elif isinstance(old, list) and isinstance(new, list) and old and new:
        yield from _list_differences(old, new, path, filling)
    else:
        yield filling.through_parameter(old, new) or Edit(path, new)


def _list_differences(old: list[Any], new: list[Any], path: Path, filling: _Filling) -> Iterator[Edit]:
    short = min(len(old), len(new))
    head = next((i for i in range(short) if not filling.alike(old[i], new[i])), short)
    tail = next((i for i in range(short - head) if not filling.alike(old[-1 - i], new[-1 - i])), short - head)
    both = short - head - tail
    for i in range(head, head + both):
        yield from _differences(old[i], new[i], (*path, i), filling)
    for i in range(len(old) - tail - 1, head + both - 1, -1):
        yield Edit((*path, i), REMOVED)
    for i in range(head + both, len(new) - tail):
        yield Edit((*path, i), new[i], insert=True)


def _marked(value: Any) -> bool:
    """Return whether any text in the value contains `${`."""
    if isinstance(value, dict | list):
        return any(map(_marked, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and "${" in value


def same(a: Any, b: Any) -> bool:
    """Return whether values and types are equal: true is not 1, and 1 is not 1.0."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and bool(a == b)


# Header for a file without a header


def _with_header(text: str, file: str, value: Any, edit: Edit) -> tuple[str, Any]:
    """Return the text and its value, both with the spec under `jobSpec` if the edit needs a header."""
    document = read(text, file)
    if not isinstance(document.value, dict):
        raise ProfileInvalid([document.problem((), "the file must have fields at the top level.")])
    if not edit.path or not _needs_header(value, edit.path[0]):
        return text, value
    return _under_job_spec(text, document.value), {"jobSpec": value}


def _needs_header(value: Mapping[str, Any], first: str | int) -> bool:
    if not isinstance(first, str) or camel(first) in JOB_SPEC.fields or camel(first) not in HEADER:
        return False
    return stands_alone({camel(k) for k in value})


def _under_job_spec(text: str, value: Any) -> str:
    """Return the text with the spec under `jobSpec`; leading comments stay at the top of the file."""
    wrapped = {"jobSpec": value}
    if is_json(text):
        return _as_json(text, wrapped)
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    start = next((i for i, x in enumerate(lines) if x.strip() and not x.startswith(("#", "---", "%"))), 0)
    body = ["  " + line if line.strip() else line for line in lines[start:]]
    changed = "".join([*lines[:start], "jobSpec:" + newline, *body])
    try:
        if same(read(changed, "").value, wrapped):
            return changed
    except ProfileInvalid:
        pass
    return render_new(wrapped)
