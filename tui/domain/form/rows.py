"""The rows of the form: sections, pools, fields with their values, foldable lists, and problems."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tui.domain.core.formatting import ACCELERATOR_SHORT
from tui.domain.document.source import Problem, ProblemSeverity, dotted
from tui.domain.form import fields as table
from tui.domain.form.values import (
    MISSING,
    Path,
    actual,
    at,
    canonical,
    duration_text,
    json_line,
    list_text,
    pair_value,
    reference,
    scalar_text,
)
from tui.domain.kubernetes.form import sections as cluster_sections
from tui.domain.masking import MASK, mask_text, mask_value
from tui.domain.profile.header import header_fields
from tui.domain.spec.field_table import JOB_SPEC, WORKER_POOL, FieldType
from tui.domain.spec.form_field import FormField, Section
from tui.domain.spec.spec_format import BodyInput, first_format
from tui.domain.vertex.catalog import REDUCTION_SERVER, machines
from tui.domain.vertex.field_check import camel

MAX_POOLS = 4
REDUCERS_KEY = "reduction-server"
_OF_VERTEX = frozenset({"region", "encryptionSpec"})
TUNING_BODY = "tuningJob"


class RowKind(StrEnum):
    """The kind of a row, which determines the effect of its keys."""

    SECTION = "section"
    POOL = "pool"
    FIELD = "field"
    TASK = "task"
    LIST = "list"
    ITEM = "item"
    PAIR = "pair"
    ELEMENT = "element"
    PARAMETER = "parameter"
    MORE = "more"
    SWITCH = "switch"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class FormRow:
    """One row. `path` has the file's spelling; `value` is shown; `raw` is the value in the file."""

    key: str
    kind: RowKind
    label: str
    path: Path = ()
    depth: int = 0
    value: str = ""
    note: str = ""
    raw: Any = MISSING
    field: FormField | None = None
    open: bool | None = None
    """Whether the row's child rows are shown; `None` if there are no child rows."""
    parameter: str = ""
    """Name of the parameter that is the row's entire value."""
    help: str = ""
    """The help of a row without a field."""
    problems: tuple[Problem, ...] = ()
    changed: bool = False
    """Whether the row's value differs from the file on disk."""

    @property
    def is_set(self) -> bool:
        """Whether the file has a value here."""
        return self.raw is not MISSING

    @property
    def severity(self) -> ProblemSeverity | None:
        """The worst severity of the row's problems."""
        severities = [p.severity for p in self.problems]
        return next((s for s in ProblemSeverity if s in severities), None)


@dataclass(frozen=True, slots=True)
class FormState:
    """The input of `build_rows`. `toggled` contains the keys of groups whose fold differs from the
    default."""

    value: Any
    saved: Any = None
    spec_path: Path = field(default_factory=lambda: first_format().spec_path)
    """Path of the CustomJobSpec in the file; () for the entire file."""
    toggled: Collection[str] = frozenset()
    problems: Sequence[Problem] = ()
    reducers: tuple[str, str, str] = ("", "", "")
    """Value, note and help of the Reduction Server's switch."""
    expanded: bool = False
    """Whether all groups are open."""
    inputs: Sequence[BodyInput] = ()
    """Values that the body's file declares."""


def build_rows(state: FormState) -> list[FormRow]:
    """Build the visible rows; a problem is on its field's row or on the nearest enclosing row."""
    return _Builder(state).rows()


@dataclass
class _Builder:
    state: FormState
    built: list[FormRow] = field(default_factory=list)

    def rows(self) -> list[FormRow]:
        spec = self._spec_path()
        cluster = cluster_sections(self.state.value)
        if self.state.spec_path:
            head = table.SECTIONS[0]
            self._section(head if cluster is None else replace(head, fields=self._of_cluster(head)), ())
            self._parameters()
        if cluster is not None:
            for section, base in cluster:
                self._section(section, base)
            if self.state.spec_path:
                self._unknown_in((), self.state.value, header_fields())
            return self._with_problems()
        if own := table.OWN_SECTIONS.get(str(dotted(self.state.spec_path))):
            for section in (*own, *([table.inputs_section(self.state.inputs)] if self.state.inputs else ())):
                self._section(section, self.state.spec_path)
            self._unknown(spec)
            return self._with_problems()
        if self.state.spec_path[:1] == (TUNING_BODY,):
            self._section(table.STUDY_SECTION, (TUNING_BODY,))
        self._pools((*spec, "workerPoolSpecs"))
        for section in table.SECTIONS[1:]:
            if section.base == "spec":
                self._section(section, spec)
            elif self.state.spec_path:
                self._section(section, ())
        self._unknown(spec)
        return self._with_problems()

    def _of_cluster(self, head: Section) -> tuple[FormField, ...]:
        """Return the header fields of a cluster's job; the object itself has the namespace."""
        return tuple(
            own
            for own in head.fields
            if own.path[0] not in _OF_VERTEX or self._get(actual(self.state.value, own.path)) is not MISSING
        )

    def _spec_path(self) -> Path:
        return actual(self.state.value, self.state.spec_path)

    def _get(self, path: Path) -> Any:
        return at(self.state.value, path)

    def _is_open(self, key: str, default: bool) -> bool:
        return self.state.expanded or default != (key in self.state.toggled)

    def _add(self, row: FormRow) -> None:
        self.built.append(replace(row, changed=_differs(self.state, row.path)) if row.path else row)

    # Sections and fields

    def _section(self, section: Section, base: Path) -> None:
        known = [(f, actual(self.state.value, (*base, *f.path))) for f in section.fields]
        is_set = [f for f, path in known if self._get(path) not in (MISSING, None)]
        default = bool(is_set) or any(f.common for f in section.fields)
        opened = self._is_open(section.id, default)
        note = "" if opened else ", ".join(f.label for f in is_set or section.fields)
        self._add(FormRow(section.id, RowKind.SECTION, section.title, open=opened, note=note))
        if opened:
            self._fields(section.id, known, 1)

    def _fields(self, key: str, known: Sequence[tuple[FormField, Path]], depth: int) -> None:
        """Add rows for these fields; fields that are neither set nor common are behind a foldable row."""
        away = [f for f, path in known if not f.common and self._get(path) in (MISSING, None)]
        more = f"{key}:more"
        opened = self._is_open(more, False)
        for form_field, path in known:
            if opened or form_field not in away:
                self._field(form_field, path, depth)
        if away:
            self._add(
                FormRow(
                    more,
                    RowKind.MORE,
                    "fewer fields" if opened else f"{len(away)} more field" + "s" * (len(away) > 1),
                    depth=depth,
                    note="" if opened else ", ".join(f.label for f in away),
                    open=opened,
                )
            )

    def _field(self, form_field: FormField, path: Path, depth: int) -> None:
        raw = self._get(path)
        raw = MISSING if raw is None else raw
        row = FormRow(_key(path), RowKind.FIELD, form_field.label, path, depth, raw=raw, field=form_field)
        if form_field.kind.repeated or form_field.kind.name == "map":
            self._list(row, form_field)
        elif raw is MISSING:
            self._add(replace(row, note=form_field.unset))
        else:
            self._add(self._filled(row, form_field))

    def _filled(self, row: FormRow, form_field: FormField) -> FormRow:
        text = json_line(row.raw) if form_field.kind.name == "value" else ""
        text = text or (mask_text(_shown(row.raw)) if not isinstance(row.raw, Mapping | list) else "…")
        name = reference(self.state.value, row.raw)
        shown = self._default(name) if name else text
        value = f"{text} = {shown}" if name else text
        return replace(row, value=value, parameter=name, note=_meaning(form_field.name, shown))

    def _default(self, name: str) -> str:
        """Return a parameter's default as text."""
        setting = self._get(("parameters", name))
        default = setting.get("default") if isinstance(setting, Mapping) else setting
        return "no default" if default in (None, MISSING) else _masked(name, setting, default)

    # Lists

    def _list(self, row: FormRow, form_field: FormField) -> None:
        raw = row.raw
        count = len(raw) if isinstance(raw, list | Mapping) else 0
        opened = self._is_open(row.key, False) if count else None
        value = "" if opened else list_text(raw) if count else ""
        note = f"{count}" if count else form_field.unset
        self._add(replace(row, kind=RowKind.LIST, value=value, note=note, open=opened))
        if not opened:
            return
        if isinstance(raw, Mapping):
            for name, value in raw.items():
                path = (*row.path, name)
                self._add(
                    FormRow(_key(path), RowKind.PAIR, str(name), path, row.depth + 1, pair_value(name, value),
                        raw=value, field=form_field, parameter=reference(self.state.value, value))
                )  # fmt: skip
            return
        for i, item in enumerate(raw if isinstance(raw, list) else ()):
            self._item(form_field, (*row.path, i), item, row.depth + 1)

    def _item(self, form_field: FormField, path: Path, item: Any, depth: int) -> None:
        label = f"{path[-1]}"
        row = FormRow(_key(path), RowKind.ITEM, label, path, depth, raw=item, field=form_field)
        if form_field.name == "env":
            name, value = (item.get("name"), item.get("value")) if isinstance(item, Mapping) else (item, "")
            source = item.get("valueFrom") if isinstance(item, Mapping) else None
            shown = f"from {json_line(source)}" if source else pair_value(name, value)
            self._add(
                replace(
                    row,
                    kind=RowKind.PAIR,
                    label=str(name),
                    value=shown,
                    parameter=reference(self.state.value, value),
                )
            )
        elif form_field.kind.name == "message":
            opened = self._is_open(row.key, True)
            text = "" if opened else list_text([item])
            self._add(replace(row, kind=RowKind.ELEMENT, open=opened, value=text))
            if opened:
                inner = table.ELEMENTS.get(form_field.name, ())
                known = [(f, actual(self.state.value, (*path, *f.path))) for f in inner]
                self._fields(row.key, known, depth + 1)
        else:
            name = reference(self.state.value, item)
            text = mask_text(_shown(item))
            value = f"{text} = {self._default(name)}" if name else text
            self._add(replace(row, value=value, parameter=name))

    # Parameters

    def _parameters(self) -> None:
        raw = self._get(("parameters",))
        settings = raw if isinstance(raw, Mapping) else {}
        opened = self._is_open("parameters", bool(settings))
        note = ", ".join(map(str, settings)) if not opened else "" if settings else "a adds one"
        self._add(
            FormRow("parameters", RowKind.SECTION, "Parameters", ("parameters",), open=opened, note=note)
        )
        for name in settings if opened else ():
            self._parameter(str(name), settings[name])

    def _parameter(self, name: str, setting: Any) -> None:
        path: Path = ("parameters", name)
        key = _key(path)
        rich = isinstance(setting, Mapping)
        help = str(setting.get("help") or "") if rich else ""
        default = setting.get("default") if rich else setting
        opened = self._is_open(key, False)
        self._add(
            FormRow(key, RowKind.PARAMETER, name, path, 1,
                "" if default is None else _masked(name, setting, default), help,
                raw=MISSING if default is None else default, open=opened)
        )  # fmt: skip
        if not opened:
            return
        for setting_name, help in table.PARAMETER_HELP.items():
            inner = (*path, setting_name)
            repeated = setting_name == "choices"
            here = setting.get(setting_name, MISSING) if rich else MISSING
            if setting_name == "default" and not rich:
                here = setting
            form_field = FormField((setting_name,), setting_name, help, FieldType("string", repeated), True)
            row = FormRow(_key(inner), RowKind.FIELD, setting_name, inner, 2, raw=here, field=form_field)
            if repeated:
                self._list(row, form_field)
            else:
                note = "" if here is not MISSING else "string" if setting_name == "type" else ""
                value = "" if here in (MISSING, None) else _shown(here)
                if setting_name == "default" and value:
                    value = _masked(name, setting, here)
                self._add(replace(row, value=value, note=note))

    # Pools

    def _pools(self, names: Path) -> None:
        path = actual(self.state.value, names)
        pools = self._get(path)
        pools = pools if isinstance(pools, list) else []
        for i, pool in enumerate(pools):
            self._pool(i, pool, (*path, i))
        value, note, help = self.state.reducers
        self._add(
            FormRow(REDUCERS_KEY, RowKind.SWITCH, "Reduction Server", value=value, note=note, help=help)
        )
        if len(pools) < MAX_POOLS:
            note = f"a adds pool {len(pools)}, {table.ROLES[len(pools)]}"
            self._add(FormRow("pool:new", RowKind.MORE, "another pool", (*path, len(pools)), note=note))

    def _pool(self, i: int, pool: Any, path: Path) -> None:
        key = _key(path)
        role = role_of(i, pool, self.state.value)
        if not pool:
            self._add(
                FormRow(
                    key,
                    RowKind.POOL,
                    f"Pool {i}  {role}",
                    path,
                    value="skipped",
                    note="enter fills it",
                    raw=pool,
                )
            )
            return
        opened = self._is_open(key, i < 2)
        row = FormRow(key, RowKind.POOL, f"Pool {i}  {role}", path, raw=pool, open=opened)
        self._add(replace(row, value=pool_text(pool, self.state.value), note=_image(pool)))
        if not opened:
            return
        known = [(f, actual(self.state.value, (*path, *f.path))) for f in table.POOL]
        tasks = {t for t in ("containerSpec", "pythonPackageSpec") if self._has(path, t)} or {"containerSpec"}
        away = {"containerSpec", "pythonPackageSpec"} - tasks
        head = [k for k in known if k[0].path[0] in ("replicaCount", "machineSpec") and k[0].common]
        rest = [k for k in known if k not in head and k[0].path[0] not in away]
        for form_field, inner in head:
            self._field(form_field, inner, 1)
        runs = " and ".join(
            "a container" if t == "containerSpec" else "a Python package" for t in sorted(tasks)
        )
        self._add(FormRow(f"{key}:task", RowKind.TASK, "runs", path, 1, runs, raw=runs))
        self._fields(key, rest, 1)
        self._unknown_in(path, pool, WORKER_POOL.fields)

    def _has(self, path: Path, name: str) -> bool:
        return self._get(actual(self.state.value, (*path, name))) not in (MISSING, None)

    # Unknown names

    def _unknown(self, spec: Path) -> None:
        top = self.state.value
        if self.state.spec_path:
            self._unknown_in((), top, header_fields())
        else:
            self._unknown_in(spec, top, JOB_SPEC.fields)

    def _unknown_in(self, path: Path, value: Any, known: Mapping[str, FieldType]) -> None:
        """Add rows for unknown names. Each row shows its problem and can be fixed or removed."""
        for name, inner in value.items() if isinstance(value, Mapping) else ():
            here = (*path, name)
            kind = known.get(camel(str(name)))
            if kind is None:
                self._add(
                    FormRow(
                        _key(here),
                        RowKind.UNKNOWN,
                        str(name),
                        here,
                        1 if path else 0,
                        list_text(inner),
                        raw=inner,
                    )
                )
            elif kind.name == "message" and not kind.repeated:
                self._unknown_in(here, inner, kind.fields)

    # Problems

    @staticmethod
    def _row_of(index: Mapping[Path, int], path: Path) -> int:
        """Return the row of a path: an exact match, the first row below it, an enclosing row, or the first
        row."""
        if path in index:
            return index[path]
        below = [i for known, i in index.items() if path and known[: len(path)] == path]
        around = (index[path[:n]] for n in range(len(path), 0, -1) if path[:n] in index)
        return min(below) if below else next(around, 0)

    def _with_problems(self) -> list[FormRow]:
        index = {canonical(row.path): i for i, row in enumerate(self.built) if row.path}
        by_row: dict[int, list[Problem]] = {}
        for problem in self.state.problems:
            path = canonical(problem.path)
            by_row.setdefault(self._row_of(index, path), []).append(problem)
        for i, problems in by_row.items():
            self.built[i] = replace(self.built[i], problems=tuple(problems))
        return self.built


def _key(path: Path) -> str:
    return dotted(canonical(path))


def _masked(name: str, setting: Any, value: Any) -> str:
    """Return a parameter's value for display."""
    secret = isinstance(setting, Mapping) and setting.get("secret") is True
    return MASK if secret else mask_value(name, _shown(value))


def _shown(value: Any) -> str:
    """Return a scalar for display; two quotes for an empty text."""
    return scalar_text(value) or '""'


def _differs(state: FormState, path: Path) -> bool:
    old, new = at(state.saved, path), at(state.value, path)
    return old is not new and old != new


def _meaning(name: str, text: str) -> str:
    """Return a short explanation of a value, for display."""
    if name == "machineType" and (machine := machines().get(text)):
        return f"{machine.vcpus} vCPU  {machine.memory_gb:g} GB" if machine.vcpus else ""
    if name == "acceleratorType":
        return ACCELERATOR_SHORT.get(text, "")
    if name in {"timeout", "maxWaitDuration"}:
        return duration_text(text)
    return ""


def plain_value(root: Any, value: Any) -> Any:
    """Return the value, or a reference's default; `None` if there is no default."""
    name = reference(root, value)
    if name:
        setting = at(root, ("parameters", name))
        value = setting.get("default") if isinstance(setting, Mapping) else setting
    return None if value is MISSING else value


def pool_value(root: Any, pool: Any, *names: str) -> Any:
    """Return a pool's value by REST names, or a reference's default; `None` for an unset value."""
    return plain_value(root, at(pool, actual(pool, names)))


def pool_text(pool: Any, root: Any) -> str:
    """Summarize a pool, e.g. `3 × a2-highgpu-8g   8 A100`."""
    count = pool_value(root, pool, "replicaCount")
    text = f"{1 if count is None else count} × {pool_value(root, pool, 'machineSpec', 'machineType') or '?'}"
    kind = pool_value(root, pool, "machineSpec", "acceleratorType")
    accelerators = pool_value(root, pool, "machineSpec", "acceleratorCount")
    return f"{text}   {accelerators or '?'} {ACCELERATOR_SHORT.get(str(kind), kind)}" if kind else text


def _image(pool: Any) -> str:
    image = at(pool, actual(pool, ("containerSpec", "imageUri")))
    return "" if image is MISSING else str(image).rpartition("/")[2]


def is_reduction_server(pool: Any, root: Any = None) -> bool:
    """Return whether the pool runs Google's reduction server."""
    return REDUCTION_SERVER in str(pool_value(root, pool, "containerSpec", "imageUri") or "")


def role_of(position: int, pool: Any, root: Any = None) -> str:
    """Return a pool's role by its position. The role of the third pool also depends on its image."""
    if position == 2 and pool:
        return "reducers" if is_reduction_server(pool, root) else "servers"
    return table.ROLES[position] if position < len(table.ROLES) else "no such position"
