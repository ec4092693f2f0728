"""What a key of the form does to the file: edits for a typed value, a removal, an addition, a parameter."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from tui.domain.profile.document_edit import REMOVED, Edit
from tui.domain.profile.parameters import convert, references
from tui.domain.profile.source import dotted
from tui.domain.vertex.catalog import machines
from tui.domain.vertex.field_check import REFERENCE
from tui.domain.vertex.form.rows import Row, RowKind, pool_value
from tui.domain.vertex.form.values import MISSING, Path, actual, at, pair, parse, reference, scalar_text

_PRUNED = frozenset(
    {"scheduling", "diskSpec", "baseOutputDirectory", "pscInterfaceConfig", "reservationAffinity",
     "encryptionSpec", "labels", "parameters"}
)  # fmt: skip
"""Messages that go with their last field."""

Edits = tuple[Edit, ...]


class Refused(Exception):
    """It can't be done here; the message says why and what to do."""


def typed(root: Any, row: Row, text: str) -> Edits:
    """Edits that give `row` the value `text`; none where it has it already.

    Raises:
        ValueError: where the text does not fit, as a sentence.
    """
    if row.kind is RowKind.PARAMETER:
        return set_default(root, str(row.path[-1]), text)
    if row.kind is RowKind.PAIR:
        return _typed_pair(row, text)
    if row.parameter and not REFERENCE.search(text):
        return set_default(root, row.parameter, text)
    if not text.strip() and row.kind is RowKind.FIELD:
        return removal(root, row) if row.is_set else ()
    value = _parsed(root, row, text)
    if row.is_set and value == row.raw and type(value) is type(row.raw):
        return ()
    return (*_rich(root, row.path), Edit(row.path, value))


def _parsed(root: Any, row: Row, text: str) -> Any:
    if row.path[:1] == ("parameters",) and len(row.path) >= 3 and row.path[2] in {"default", "choices"}:
        return _of_parameter(root, str(row.path[1]), text)
    if row.field is None:
        return text
    return parse(row.field.kind, text)


def _typed_pair(row: Row, text: str) -> Edits:
    name, value = pair(text)
    if isinstance(row.raw, Mapping):
        new = {"name": name, "value": value}
        return tuple(
            Edit((*row.path, k), v) for k, v in new.items() if scalar_text(row.raw.get(k, MISSING)) != v
        )
    if name == row.path[-1]:
        return () if scalar_text(row.raw) == value else (Edit(row.path, value),)
    return Edit(row.path, REMOVED), Edit((*row.path[:-1], name), value)


def _rich(root: Any, path: Path) -> Edits:
    """A parameter that is only its default becomes one with settings before another of them is set."""
    if path[:1] == ("parameters",) and len(path) > 2:
        short = at(root, path[:2])
        if short is not MISSING and not isinstance(short, Mapping):
            return (Edit(path[:2], {"default": short}),)
    return ()


def parameter_type(root: Any, name: str) -> str:
    """A parameter's type: said, or that of its default."""
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
    """The only values a parameter may have; none where it may have any."""
    found = at(root, ("parameters", name, "choices"))
    return [scalar_text(v) for v in found] if isinstance(found, list) else []


def _of_parameter(root: Any, name: str, text: str) -> Any:
    kind = parameter_type(root, name)
    value = convert(text, kind)
    if value is None:
        raise ValueError(
            f"The parameter {name} takes {'an' if kind[0] == 'i' else 'a'} {kind}, not {text!r}."
        )
    return value


def set_default(root: Any, name: str, text: str) -> Edits:
    """Edits that give a parameter another default.

    Raises:
        ValueError: for a text of another type, or none of its choices.
    """
    value = _of_parameter(root, name, text)
    choices = parameter_choices(root, name)
    if choices and scalar_text(value) not in choices:
        raise ValueError(f"The parameter {name} is one of {', '.join(choices)}.")
    rich = isinstance(at(root, ("parameters", name)), Mapping)
    path: Path = ("parameters", name, "default") if rich else ("parameters", name)
    return () if at(root, path) == value else (Edit(path, value),)


def removal(root: Any, row: Row) -> Edits:
    """Edits that take away what the row stands for.

    Raises:
        Refused: where nothing is there, or something else needs it.
    """
    if row.kind is RowKind.POOL:
        return _without_pool(root, row.path)
    if not row.path or at(root, row.path) is MISSING or row.kind in {RowKind.SECTION, RowKind.MORE}:
        raise Refused("There is nothing to take away here.")
    if row.kind is RowKind.TASK:
        raise Refused("A pool runs something; enter chooses a container or a Python package.")
    if row.kind is RowKind.PARAMETER:
        name = str(row.path[1])
        used = [path for found, path in references(root) if found == name]
        if used:
            raise Refused(f"${{{name}}} is used by {dotted(used[0])}; P there puts its value in its place.")
    path = row.path
    while len(path) > 1 and path[-2] in _PRUNED and len(at(root, path[:-1])) == 1:
        path = path[:-1]
    return (Edit(path, REMOVED),)


def _without_pool(root: Any, path: Path) -> Edits:
    """The last pool goes; another one is skipped, since its position is its role."""
    pools = at(root, path[:-1])
    position = int(path[-1])
    if position == 0:
        raise Refused("The first pool is the primary; a job has one.")
    if position < len(pools) - 1:
        return (Edit(path, {}),)
    last = position
    while last > 1 and not pools[last - 1]:
        last -= 1
    return tuple(Edit((*path[:-1], i), REMOVED) for i in range(position, last - 1, -1))


def addition(root: Any, row: Row, text: str) -> tuple[Edits, Path]:
    """Edits that add `text` to the list that `row` is or is in, and the path of what is new.

    Raises:
        ValueError: where the text does not fit.
    """
    path = list_of(row)
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
        new = _of_parameter(root, str(row.path[1]), text)
    else:
        new = text
    edits = (*_rich(root, path), *(() if count else (Edit(path, []),)), Edit((*path, count), new))
    return edits, (*path, count)


def list_of(row: Row) -> Path | None:
    """Path of the list that the row is, or is an element of."""
    if row.kind is RowKind.LIST:
        return row.path
    return row.path[:-1] if row.kind in {RowKind.ITEM, RowKind.PAIR, RowKind.ELEMENT} else None


def new_element(root: Any, row: Row) -> tuple[Edits, Path]:
    """Edits that add an empty element to a list of messages."""
    path = list_of(row)
    if path is None or row.field is None:
        raise Refused("Nothing can be added here.")
    there = at(root, path)
    count = len(there) if isinstance(there, list) else 0
    first = next(iter(row.field.kind.fields))
    return (*(() if count else (Edit(path, []),)), Edit((*path, count), {first: ""})), (*path, count)


def new_pool(root: Any, pools_path: Path, position: int) -> Edits:
    """Edits that add a pool like the workers, else like the primary; positions before it are skipped."""
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


def to_parameter(root: Any, row: Row, name: str) -> Edits:
    """Edits that make a field's value the default of a parameter; one that exists is used as it is.

    Raises:
        Refused: for a row without a value of its own.
    """
    path, value = _place(row)
    kinds = {RowKind.FIELD, RowKind.ITEM, RowKind.PAIR}
    if row.kind not in kinds or isinstance(value, Mapping | list) or value in {None, MISSING}:
        raise Refused("A parameter is made of a value; set one first.")
    if row.path[:1] == ("parameters",) or row.parameter:
        raise Refused("This is a parameter already.")
    if REFERENCE.search(str(value)):
        raise Refused("It holds a parameter already.")
    link = Edit(path, f"${{{name}}}")
    if at(root, ("parameters", name)) is not MISSING:
        return (link,)
    return Edit(("parameters", name), {"default": value, "help": row.label}), link


def name_problem(name: str) -> str:
    """What is wrong with a parameter's name; empty where nothing is."""
    fits = REFERENCE.fullmatch(f"${{{name}}}")
    return "" if fits else "A parameter's name has letters, digits, _ and - only, and begins with a letter."


def inlined(root: Any, row: Row) -> Edits:
    """Edits that put a parameter's default in the place of the reference to it.

    Raises:
        Refused: where there is none, or it has no default.
    """
    if not row.parameter:
        raise Refused("This value is no parameter; p makes one of it.")
    setting = at(root, ("parameters", row.parameter))
    value = setting.get("default") if isinstance(setting, Mapping) else setting
    if value is MISSING or value is None:
        raise Refused(f"The parameter {row.parameter} has no default to take.")
    path, _ = _place(row)
    return Edit(path, REMOVED), Edit(path, value, insert=isinstance(path[-1], int))


def _place(row: Row) -> tuple[Path, Any]:
    """Where the row's value stands, and the value; of a variable that beside its name."""
    if row.kind is RowKind.PAIR and isinstance(row.raw, Mapping):
        return (*row.path, "value"), row.raw.get("value", MISSING)
    return row.path, row.raw


def other_task(root: Any, pool: Path) -> Edits:
    """Edits that turn a container into a Python package or back; arguments and variables go along."""
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
    """Edits for another machine; accelerators that belong to it come with it, those it can't have go."""
    machine = machines().get(name)
    here = (*pool, *actual(at(root, pool), ("machineSpec",)))
    edits = [Edit((*here, *_last(root, here, "machineType")), name)]
    if machine is None:
        return tuple(edits)
    kind_path = (*here, *_last(root, here, "acceleratorType"))
    count_path = (*here, *_last(root, here, "acceleratorCount"))
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
    return tuple(_redirect(root, e) for e in edits)


def accelerator_edits(root: Any, pool: Path, kind: str) -> Edits:
    """Edits for another accelerator, or for none where `kind` is empty; the machine stays."""
    here = (*pool, *actual(at(root, pool), ("machineSpec",)))
    kind_path = (*here, *_last(root, here, "acceleratorType"))
    count_path = (*here, *_last(root, here, "acceleratorCount"))
    if not kind:
        return tuple(Edit(p, REMOVED) for p in (kind_path, count_path) if at(root, p) is not MISSING)
    machine = machines().get(str(pool_value(root, at(root, pool), "machineSpec", "machineType") or ""))
    counts = dict(machine.accelerators).get(kind, ()) if machine else ()
    count = pool_value(root, at(root, pool), "machineSpec", "acceleratorCount")
    edits = [Edit(kind_path, kind)]
    if counts and count not in counts:
        edits.append(Edit(count_path, counts[0]))
    return tuple(_redirect(root, e) for e in edits)


def takes(root: Any, pool: Path, kind: str) -> bool:
    """The pool's machine can have this accelerator."""
    machine = machines().get(str(pool_value(root, at(root, pool), "machineSpec", "machineType") or ""))
    return machine is not None and kind in dict(machine.accelerators)


def _last(root: Any, here: Path, name: str) -> Path:
    return actual(at(root, here), (name,))


def _redirect(root: Any, edit: Edit) -> Edit:
    """An edit of a value that is a parameter changes the parameter's default."""
    name = reference(root, at(root, edit.path))
    if not name or edit.value is REMOVED:
        return edit
    rich = isinstance(at(root, ("parameters", name)), Mapping)
    return Edit(("parameters", name, "default") if rich else ("parameters", name), edit.value)
