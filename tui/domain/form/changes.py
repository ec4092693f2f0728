"""Edits of the file for each key of the form: set, remove or add a value, or create a parameter."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from tui.domain.document.document_edit import REMOVED, Edit
from tui.domain.document.source import dotted
from tui.domain.form.rows import FormRow, RowKind, pool_value
from tui.domain.form.values import MISSING, Path, actual, at, pair, parse, reference, scalar_text
from tui.domain.profile.parameters import convert, references
from tui.domain.spec.values import REFERENCE
from tui.domain.vertex.catalog import machines

_REMOVED_WHEN_EMPTY = frozenset(
    {"scheduling", "diskSpec", "baseOutputDirectory", "pscInterfaceConfig", "reservationAffinity",
     "encryptionSpec", "labels", "parameters"}
)  # fmt: skip
"""Messages that are removed together with their last field."""

Edits = tuple[Edit, ...]


class Refused(Exception):
    """The change is not possible here; the message gives the reason and the remedy."""


def value_edits(root: Any, row: FormRow, text: str) -> Edits:
    """Return the edits that set `row` to `text`; none if `text` is already its value. Raises ValueError with
    a sentence if the text is not a valid value of the field."""
    if row.kind is RowKind.PARAMETER:
        return default_edits(root, str(row.path[-1]), text)
    if row.kind is RowKind.PAIR:
        return _pair_edits(row, text)
    if row.parameter and not REFERENCE.search(text):
        return default_edits(root, row.parameter, text)
    if not text.strip() and row.kind is RowKind.FIELD:
        return removal_edits(root, row) if row.is_set else ()
    value = _parsed(root, row, text)
    if row.is_set and value == row.raw and type(value) is type(row.raw):
        return ()
    return (*_settings_edits(root, row.path), Edit(row.path, value))


def _parsed(root: Any, row: FormRow, text: str) -> Any:
    if row.path[:1] == ("parameters",) and len(row.path) >= 3 and row.path[2] in {"default", "choices"}:
        return _parameter_value(root, str(row.path[1]), text)
    if row.field is None:
        return text
    return parse(row.field.kind, text)


def _pair_edits(row: FormRow, text: str) -> Edits:
    name, value = pair(text)
    if isinstance(row.raw, Mapping):
        new = {"name": name, "value": value}
        return tuple(
            Edit((*row.path, k), v) for k, v in new.items() if scalar_text(row.raw.get(k, MISSING)) != v
        )
    if name == row.path[-1]:
        return () if scalar_text(row.raw) == value else (Edit(row.path, value),)
    return Edit(row.path, REMOVED), Edit((*row.path[:-1], name), value)


def _settings_edits(root: Any, path: Path) -> Edits:
    """Return the edits that turn `name: default` into settings, so that another setting can be added."""
    if path[:1] == ("parameters",) and len(path) > 2:
        short = at(root, path[:2])
        if short is not MISSING and not isinstance(short, Mapping):
            return (Edit(path[:2], {"default": short}),)
    return ()


def parameter_type(root: Any, name: str) -> str:
    """Return a parameter's declared type, or the type of its default if none is declared."""
    setting = at(root, ("parameters", name))
    default = setting.get("default") if isinstance(setting, Mapping) else setting
    if isinstance(setting, Mapping) and setting.get("type"):
        return str(setting["type"])
    if isinstance(default, bool):
        return "boolean"
    if isinstance(default, int):
        return "integer"
    return "number" if isinstance(default, float) else "string"


def parameter_choices(root: Any, name: str) -> list[str]:
    """Return a parameter's allowed values; empty if any value is allowed."""
    values = at(root, ("parameters", name, "choices"))
    return [scalar_text(v) for v in values] if isinstance(values, list) else []


def _parameter_value(root: Any, name: str, text: str) -> Any:
    kind = parameter_type(root, name)
    value = convert(text, kind)
    if value is None:
        raise ValueError(
            f"The parameter {name} must be {'an' if kind[0] == 'i' else 'a'} {kind}, not {text!r}."
        )
    return value


def default_edits(root: Any, name: str, text: str) -> Edits:
    """Return the edits that set a parameter's default. Raises ValueError if the text has another type or is
    not one of the parameter's choices."""
    value = _parameter_value(root, name, text)
    choices = parameter_choices(root, name)
    if choices and scalar_text(value) not in choices:
        raise ValueError(f"The parameter {name} must be one of {', '.join(choices)}.")
    has_settings = isinstance(at(root, ("parameters", name)), Mapping)
    path: Path = ("parameters", name, "default") if has_settings else ("parameters", name)
    return () if at(root, path) == value else (Edit(path, value),)


def removal_edits(root: Any, row: FormRow) -> Edits:
    """Return the edits that remove the row's value or element. Raises Refused if it is not set, or another
    value needs it."""
    if row.kind is RowKind.POOL:
        return _pool_removal(root, row.path)
    if not row.path or at(root, row.path) is MISSING or row.kind in {RowKind.SECTION, RowKind.MORE}:
        raise Refused("There is nothing to remove here.")
    if row.kind is RowKind.TASK:
        raise Refused("A pool needs a task; enter chooses a container or a Python package.")
    if row.kind is RowKind.PARAMETER:
        name = str(row.path[1])
        used = [path for reference_name, path in references(root) if reference_name == name]
        if used:
            raise Refused(f"${{{name}}} is used by {dotted(used[0])}; P there replaces it with its value.")
    path = row.path
    while len(path) > 1 and path[-2] in _REMOVED_WHEN_EMPTY and len(at(root, path[:-1])) == 1:
        path = path[:-1]
    return (Edit(path, REMOVED),)


def _pool_removal(root: Any, path: Path) -> Edits:
    """Remove the last pool; only empty any other pool, because its position is its role."""
    pools = at(root, path[:-1])
    position = int(path[-1])
    if position == 0:
        raise Refused("The first pool is the primary, which every job must have.")
    if position < len(pools) - 1:
        return (Edit(path, {}),)
    last = position
    while last > 1 and not pools[last - 1]:
        last -= 1
    return tuple(Edit((*path[:-1], i), REMOVED) for i in range(position, last - 1, -1))


def addition_edits(root: Any, row: FormRow, text: str) -> tuple[Edits, Path]:
    """Return the edits that add `text` to the list of `row`, and the path of the new element. Raises
    ValueError if the text is not a valid element of the list."""
    path = list_path(row)
    if row.field is None or path is None:
        raise ValueError("Nothing can be added here.")
    there = at(root, path)
    if row.field.kind.name == "map":
        name, value = pair(text)
        return (Edit((*path, name), value),), (*path, name)
    count = len(there) if isinstance(there, list) else 0
    if row.field.name == "env":
        name, value = pair(text)
        new: Any = {"name": name, "value": value}
    elif row.path[:1] == ("parameters",):
        new = _parameter_value(root, str(row.path[1]), text)
    else:
        new = parse(row.field.kind, text)
    edits = (*_settings_edits(root, path), *(() if count else (Edit(path, []),)), Edit((*path, count), new))
    return edits, (*path, count)


def list_path(row: FormRow) -> Path | None:
    """Return the path of the list that the row shows, or to which the row belongs."""
    if row.kind is RowKind.LIST:
        return row.path
    return row.path[:-1] if row.kind in {RowKind.ITEM, RowKind.PAIR, RowKind.ELEMENT} else None


def element_edits(root: Any, row: FormRow) -> tuple[Edits, Path]:
    """Return the edits that add an empty element to a list of messages."""
    path = list_path(row)
    if path is None or row.field is None:
        raise Refused("Nothing can be added here.")
    there = at(root, path)
    count = len(there) if isinstance(there, list) else 0
    first = next(iter(row.field.kind.fields))
    return (*(() if count else (Edit(path, []),)), Edit((*path, count), {first: ""})), (*path, count)


def pool_edits(root: Any, pools_path: Path, position: int) -> Edits:
    """Return the edits that add a pool with the settings of the workers, or of the primary if there are no
    workers; earlier missing positions are skipped."""
    pools = at(root, pools_path)
    pools = pools if isinstance(pools, list) else []
    model = next((p for p in (*pools[1:2], *pools[:1]) if p), None)
    new = (
        copy.deepcopy(model)
        if isinstance(model, Mapping)
        else {"machineSpec": {"machineType": "n1-standard-4"}}
    )
    count = next((k for k in new if k in ("replicaCount", "replica_count")), "replicaCount")
    new = {**new, count: 1}
    edits = [] if pools else [Edit(pools_path, [])]
    edits += [Edit((*pools_path, i), {}) for i in range(len(pools), position)]
    return (*edits, Edit((*pools_path, position), new))


def parameter_edits(root: Any, row: FormRow, name: str) -> Edits:
    """Return the edits that turn a field's value into a parameter; an existing parameter keeps its default.
    Raises Refused if the row itself has no value."""
    path, value = _value_path(row)
    kinds = {RowKind.FIELD, RowKind.ITEM, RowKind.PAIR}
    if row.kind not in kinds or isinstance(value, Mapping | list) or value in {None, MISSING}:
        raise Refused("Set a value first; it becomes the parameter's default.")
    if row.path[:1] == ("parameters",) or row.parameter:
        raise Refused("This is already a parameter.")
    if REFERENCE.search(str(value)):
        raise Refused("The value already contains a parameter.")
    link = Edit(path, f"${{{name}}}")
    if at(root, ("parameters", name)) is not MISSING:
        return (link,)
    return Edit(("parameters", name), {"default": value, "help": row.label}), link


def name_problem(name: str) -> str:
    """Return the problem with a parameter's name; "" for a valid name."""
    fits = REFERENCE.fullmatch(f"${{{name}}}")
    return (
        "" if fits else "A parameter's name must have only letters, digits, _ and -, and begin with a letter."
    )


def inline_edits(root: Any, row: FormRow) -> Edits:
    """Return the edits that replace a reference with its parameter's default. Raises Refused if the row is
    not a reference, or its parameter has no default."""
    if not row.parameter:
        raise Refused("This value is not a parameter; p makes it a parameter.")
    setting = at(root, ("parameters", row.parameter))
    value = setting.get("default") if isinstance(setting, Mapping) else setting
    if value is MISSING or value is None:
        raise Refused(f"The parameter {row.parameter} has no default.")
    path, _ = _value_path(row)
    return Edit(path, REMOVED), Edit(path, value, insert=isinstance(path[-1], int))


def _value_path(row: FormRow) -> tuple[Path, Any]:
    """Return the path of the row's value, and the value. A variable stores its value in a field beside its
    name."""
    if row.kind is RowKind.PAIR and isinstance(row.raw, Mapping):
        return (*row.path, "value"), row.raw.get("value", MISSING)
    return row.path, row.raw


def task_edits(root: Any, pool: Path) -> Edits:
    """Return the edits that turn a container into a Python package or back; arguments and variables stay."""
    container = actual(root, (*pool, "containerSpec"))
    package = actual(root, (*pool, "pythonPackageSpec"))
    old_path, new_path = (container, package) if at(root, package) is MISSING else (package, container)
    old = at(root, old_path)
    old = old if isinstance(old, Mapping) else {}
    kept = {k: v for k, v in old.items() if k in {"args", "env"}}
    blank = (
        {"executorImageUri": "", "packageUris": [], "pythonModule": ""}
        if new_path == package
        else {"imageUri": ""}
    )
    removed = (Edit(old_path, REMOVED),) if at(root, old_path) is not MISSING else ()
    return (*removed, Edit(new_path, {**blank, **kept}))


def machine_edits(root: Any, pool: Path, name: str) -> Edits:
    """Return the edits that set a machine, add its built-in accelerators, and remove unsupported ones."""
    machine = machines().get(name)
    here = (*pool, *actual(at(root, pool), ("machineSpec",)))
    edits = [Edit((*here, *_spelled(root, here, "machineType")), name)]
    if machine is None:
        return tuple(edits)
    kind_path = (*here, *_spelled(root, here, "acceleratorType"))
    count_path = (*here, *_spelled(root, here, "acceleratorCount"))
    kind = pool_value(root, at(root, pool), "machineSpec", "acceleratorType")
    count = pool_value(root, at(root, pool), "machineSpec", "acceleratorCount")
    allowed = dict(machine.accelerators)
    if len(allowed) == 1 and not name.startswith("n1-"):
        (only, counts), *_ = allowed.items()
        edits += [] if kind == only else [Edit(kind_path, only)]
        edits += [] if count in counts else [Edit(count_path, counts[0])]
    elif kind and kind not in allowed:
        edits += [Edit(p, REMOVED) for p in (kind_path, count_path) if at(root, p) is not MISSING]
    elif kind and count not in allowed[kind]:
        edits.append(Edit(count_path, allowed[kind][0]))
    return tuple(_to_default(root, e) for e in edits)


def accelerator_edits(root: Any, pool: Path, kind: str) -> Edits:
    """Return the edits that set an accelerator, or remove it if `kind` is empty; the machine stays."""
    here = (*pool, *actual(at(root, pool), ("machineSpec",)))
    kind_path = (*here, *_spelled(root, here, "acceleratorType"))
    count_path = (*here, *_spelled(root, here, "acceleratorCount"))
    if not kind:
        return tuple(Edit(p, REMOVED) for p in (kind_path, count_path) if at(root, p) is not MISSING)
    machine = machines().get(str(pool_value(root, at(root, pool), "machineSpec", "machineType") or ""))
    counts = dict(machine.accelerators).get(kind, ()) if machine else ()
    count = pool_value(root, at(root, pool), "machineSpec", "acceleratorCount")
    edits = [Edit(kind_path, kind)]
    if counts and count not in counts:
        edits.append(Edit(count_path, counts[0]))
    return tuple(_to_default(root, e) for e in edits)


def accepts_accelerator(root: Any, pool: Path, kind: str) -> bool:
    """Return whether the pool's machine can have this accelerator."""
    machine = machines().get(str(pool_value(root, at(root, pool), "machineSpec", "machineType") or ""))
    return machine is not None and kind in dict(machine.accelerators)


def _spelled(root: Any, here: Path, name: str) -> Path:
    return actual(at(root, here), (name,))


def _to_default(root: Any, edit: Edit) -> Edit:
    """Turn an edit of a reference into an edit of its parameter's default."""
    name = reference(root, at(root, edit.path))
    if not name or edit.value is REMOVED:
        return edit
    has_settings = isinstance(at(root, ("parameters", name)), Mapping)
    return Edit(("parameters", name, "default") if has_settings else ("parameters", name), edit.value)
