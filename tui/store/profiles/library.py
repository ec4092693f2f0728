"""Profile files: the user's own and the shipped profiles."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tui.config.paths import shipped
from tui.config.regular_file import read_regular
from tui.config.settings import Context
from tui.domain.core.text import sentences
from tui.domain.document.document_edit import Edit, edited
from tui.domain.document.source import Path as FieldPath
from tui.domain.document.source import ProblemSeverity, decode
from tui.domain.form.choices import Choice, Offer, offers
from tui.domain.masking import looks_secret, mask_text, mask_value
from tui.domain.profile import Checked, Problem, Profile, ProfileInvalid, load, problems_of
from tui.domain.profile.parameters import Parameter as ProfileParameter
from tui.domain.profile.parameters import references
from tui.domain.spec.spec_format import custom_jobs, groups_of
from tui.domain.spec.values import text
from tui.domain.vertex.packaging import LaunchTarget, PackageRequest, PackagingError
from tui.store.profiles.entries import REGION, LaunchParameter, Prepared, ProfileEntry, ProfileError, size_of
from tui.store.profiles.files import MAX_BYTES
from tui.store.profiles.preferences import family_of
from tui.store.profiles.templates import is_compiled

SUFFIXES = (".yaml", ".yml", ".json")


class NoProfile(Exception):
    """No profile has that name. The message lists the searched folders."""


def folders(own: Path) -> tuple[Path, ...]:
    """Return the profile folders in order of precedence."""
    return own, shipped("profiles")


def read_profile(path: Path) -> Profile:
    """Read one file.

    Raises:
        ProfileInvalid: the content is not a profile.
        OSError: the file can't be read.
    """
    return load(decode(read_regular(path, MAX_BYTES), str(path)), str(path), path.stem)


def find(reference: str, own: Path) -> Path:
    """Return the file of a profile by name or path. Raises NoProfile with every searched folder."""
    if "/" not in reference:
        for folder in folders(own):
            for suffix in SUFFIXES:
                if (folder / f"{reference}{suffix}").is_file():
                    return folder / f"{reference}{suffix}"
    path = Path(reference).expanduser()
    if path.is_file():
        return path
    if path.is_dir():
        raise NoProfile(f"{path} is a folder; name a profile's file.")
    known = [file.stem for folder in folders(own) for file in folder.glob("*") if file.suffix in SUFFIXES]
    near = difflib.get_close_matches(reference, known, 1)
    hint = f" Did you mean {near[0]}?" if near else ""
    looked = ", ".join(str(f) for f in folders(own))
    raise NoProfile(
        f"There is no profile {reference}: neither the file {path} nor that name in {looked} exists.{hint}"
    )


def entries(own: Path) -> list[ProfileEntry]:
    """Return every profile, the user's first. A user's profile hides a shipped profile of the same name."""
    profiles: dict[str, ProfileEntry] = {}
    for folder in folders(own):
        files = [p for p in folder.glob("*") if p.suffix in SUFFIXES] if folder.is_dir() else []
        # Sort by stem: with the suffix `local-2node-zero2` would come before `local-2node`.
        for path in sorted(files, key=lambda p: (p.stem, p.suffix)):
            profiles.setdefault(path.stem, entry(path, mine=folder == own))
    # A compiled pipeline may lie beside the profile that names it.
    return [profile for profile in profiles.values() if not profile.problem or not is_compiled(profile.path)]


def entry(path: Path, *, mine: bool) -> ProfileEntry:
    """Read one file for the screens. `problem` is the reason why it can't be used."""
    try:
        profile = read_profile(path)
    except (ProfileInvalid, OSError) as error:
        return ProfileEntry(path.stem, path, mine, problem=str(error))
    parameters = tuple(
        LaunchParameter(
            p.name,
            _default(p),
            p.type,
            p.help,
            tuple(map(str, p.choices)),
            p.secret or looks_secret(p.name) or _default(p) != mask_value(p.name, _default(p)),
            p.at_launch,
        )
        for p in profile.parameters
    )
    parameters += _of_body(profile)
    return ProfileEntry(
        path.stem, path, mine, mask_text(profile.description), "", profile.region, shape(profile), parameters,
        accelerators(profile), profile.format.family, partial(_prepare, profile),
        partial(_check_rules, profile), partial(_offers, profile),
    )  # fmt: skip


def _of_body(profile: Profile) -> tuple[LaunchParameter, ...]:
    """Return the values that a launch may set in the body: the parameters of a pipeline."""
    header_names = {p.name for p in profile.parameters}
    return tuple(
        LaunchParameter(
            declared.key,
            declared.default,
            declared.type,
            ". ".join(
                filter(
                    None,
                    (f"{declared.type}, required" if declared.required else declared.type, declared.help),
                )
            ),
            declared.choices,
            looks_secret(declared.name),
            label=declared.key if declared.name in header_names else declared.name,
        )
        for declared in profile.inputs
    )


def _default(parameter: ProfileParameter) -> str:
    return "" if parameter.default is None else text(parameter.default)


def accelerators(profile: Profile) -> int:
    """Return the number of accelerators of all pools. A count that is a parameter is at least one."""
    total = 0
    if groups := groups_of(profile.outline()):
        counts = [
            (1 if g.replicas is None else g.replicas) * (1 if g.count is None else g.count) for g in groups
        ]
        return sum(counts)
    for pool in _pools(profile):
        machine = pool.get("machineSpec") or {}
        if machine.get("acceleratorType"):
            count, nodes = machine.get("acceleratorCount", 1), pool.get("replicaCount", 1)
            total += (count if isinstance(count, int) else 1) * (nodes if isinstance(nodes, int) else 1)
    return total or _named_accelerators(profile)


def _named_accelerators(profile: Profile) -> int:
    """Return the number of accelerators in a launch's values, e.g. for the pools of a pipeline."""
    if profile.format.spec(profile.body) is not None:
        return 0

    def count(value: object) -> int:
        if isinstance(value, Mapping):
            own = value.get("accelerator_count", value.get("acceleratorCount", 0))
            return (own if isinstance(own, int) else 1) + sum(map(count, value.values()))
        return sum(map(count, value)) if isinstance(value, list) else 0

    return count((profile.body.get("runtimeConfig") or {}).get("parameterValues") or {})


def shape(profile: Profile) -> str:
    """Return the machines, e.g. `1 + 3 × a2-highgpu-8g, 13 × n1-highcpu-16`; for a study `8 trials of 1 ×
    …`."""
    if profile.format.spec(profile.body) is None:
        return size_of(profile.outline())
    counts: dict[str, list[str]] = {}
    for pool in filter(None, profile.job_spec.get("workerPoolSpecs", [])):
        machine = str((pool.get("machineSpec") or {}).get("machineType", "?"))
        counts.setdefault(machine, []).append(str(pool.get("replicaCount", 1)))
    trials = _filled(profile, profile.format.beside(profile.body).get("maxTrialCount"))
    before = f"{trials} trials of " if trials else ""
    return before + ", ".join(f"{' + '.join(numbers)} × {machine}" for machine, numbers in counts.items())


def _pools(profile: Profile) -> Iterator[Mapping[str, Any]]:
    """Yield the worker pools of the job that a profile wraps, or of the jobs of its tasks."""
    if profile.format.spec(profile.body) is not None:
        yield from filter(None, profile.job_spec.get("workerPoolSpecs", []))
        return
    for known in custom_jobs(profile.outline()):
        yield from known.job["jobSpec"]["workerPoolSpecs"]


def _filled(profile: Profile, value: object) -> object:
    """Return a field's value, or the parameter's default if the field is one parameter."""
    defaults = {f"${{{parameter.name}}}": parameter.default for parameter in profile.parameters}
    return defaults.get(value, value) if isinstance(value, str) else value


def _check_rules(profile: Profile, context: Context) -> tuple[tuple[str, ...], tuple[str, ...]]:
    # Check regions against the profile's own service family.
    here = not profile.region and family_of(context.kind) in {"", profile.format.family}
    place = context.home_region if here else ""
    problems = problems_of(profile, region=place, local=context.emulated)
    errors = tuple(_summary(p) for p in problems if p.severity is ProblemSeverity.ERROR)
    return errors, tuple(_summary(p) for p in problems if p.severity is ProblemSeverity.WARNING)


def _summary(problem: Problem) -> str:
    """Return e.g. `line 8: the primary pool has 2 replicas. Write 1.`"""
    # A rule's message names its subject, unlike a message about a field's structure.
    leaf = problem.field.rpartition(".")[2] if problem.id.startswith("profile.") else ""
    where = [f"line {problem.line}"] if problem.line else []
    return ": ".join([*where, *filter(None, [leaf]), mask_text(sentences(problem.message, problem.fix))])


def check_in(profile: Profile, values: Mapping[str, str], context: Context, region: str = "") -> Checked:
    """Render a profile for a context and check it. The region defaults to the profile's region, or else to
    the context's first region. Raises ProfileInvalid if a value does not match its parameter."""
    local = context.emulated
    checked = profile.check(values, region=region, local=local)
    if not checked.request.region:
        checked = profile.check(values, region=context.home_region, local=local)
    wrong = misplaced(profile, context)
    return checked if wrong is None else replace(checked, problems=(wrong, *checked.problems))


def misplaced(profile: Profile, context: Context) -> Problem | None:
    """Return a problem if profile and context belong to different service families; otherwise None."""
    family = family_of(context.kind)
    if not family or profile.format.family == family:
        return None
    path = (profile.format.body,) if profile.wrapped else ()
    words = {"kubernetes": "a Kubernetes cluster", "vertex": "Vertex AI"}
    message = (
        f"a {profile.format.body} is for {words[profile.format.family]}, and the context {context.name} is "
        f"{words[family]}{'' if family == 'kubernetes' or not context.emulated else ' on this machine'}."
    )
    fix = (
        f"`vxtui profiles convert {profile.name} --to {family}` makes a profile for this context; or "
        "choose another context (--context)."
    )
    return profile.document.problem(path, message, fix, "profile.context")


def _prepare(profile: Profile, values: Mapping[str, str], context: Context, region: str) -> Prepared:
    try:
        checked = check_in(profile, values, context, region)
    except ProfileInvalid as error:
        raise _refused(profile, values, error.problems) from error
    if checked.errors:
        raise _refused(profile, values, checked.errors)
    request = checked.request
    if request.package is None:
        return Prepared(request, checked.problems)
    target = LaunchTarget(context.project, request.region, context.emulated)
    order = PackageRequest(
        request.custom_job, request.package, str(Path(profile.document.file).parent), target
    )
    try:
        return Prepared(replace(request, custom_job=order.preview()), checked.problems, order)
    except PackagingError as error:
        raise ProfileError(sentences(error.message, error.fix)) from error


def _offers(profile: Profile, values: Mapping[str, str], region: str) -> dict[str, Offer]:
    offered = offers(profile.document.fields, profile.spec_path, values, region)
    for parameter in profile.inputs:
        if parameter.choices:
            offered[parameter.key] = Offer(tuple(Choice(value) for value in parameter.choices))
    return offered


def _refused(profile: Profile, values: Mapping[str, str], problems: Sequence[Problem]) -> ProfileError:
    """Return the problems, each attached to its launch values."""
    of_body = {parameter.path: parameter.key for parameter in profile.inputs}
    changed = {
        p.name
        for p in profile.parameters
        if p.default is None or values.get(p.name, _default(p)) != _default(p)
    }
    rest = {key: value for key, value in profile.document.fields.items() if key != "parameters"}
    users: dict[FieldPath, set[str]] = {}
    for name, path in references(rest):
        users.setdefault(path, set()).add(name)
    at: dict[str, str] = {}
    others = []
    for problem in problems:
        path = profile.document.spelled(problem.path)
        if path[:1] == ("parameters",) and path[1:]:
            names = {str(path[1])}
        elif problem.path in of_body:
            names = {of_body[problem.path]}
        else:
            names = users.get(path, set()) & changed
        if path == ("region",) and not names:
            names = {REGION}
        for name in names:
            at.setdefault(name, mask_text(sentences(problem.message, problem.fix)))
        if not names:
            others.append(str(problem))
    return ProfileError("\n".join(map(str, problems)), at, others)


def with_edits(prepared: Prepared, edits: Sequence[Edit]) -> Prepared:
    """Apply changes of the custom job to the shown request and to the request of the package. Raises
    LookupError if a path goes through a value that does not exist and can't be created."""
    request, order = prepared.request, prepared.order
    return replace(
        prepared,
        request=replace(request, custom_job=edited(request.custom_job, edits)),
        order=None if order is None else replace(order, job=edited(order.job, edits)),
    )
