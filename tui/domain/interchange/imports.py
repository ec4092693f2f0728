"""Imports profiles from gcloud command lines and configs, REST bodies and resources."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tui.domain.core.job import LAUNCH_LABEL
from tui.domain.document.document_edit import REMOVED, Edit
from tui.domain.document.source import Document, Path, camel, dotted, is_json, read
from tui.domain.interchange import gcloud
from tui.domain.interchange.config_files import slug, stem
from tui.domain.interchange.gcloud_script import Surroundings, is_command
from tui.domain.kubernetes.export import cleaning, has_job, job_title
from tui.domain.pipeline.imports import is_compiled, of_compiled
from tui.domain.pipeline.ir import AGAIN, reading_of
from tui.domain.pipeline.template import COMPILE, first_document, foreign
from tui.domain.profile import Problem, Profile, ProfileInvalid, load
from tui.domain.profile.edit import apply, render_new
from tui.domain.profile.gcloud_config import repeated_keys, task_problems
from tui.domain.profile.header import header_fields, top_names
from tui.domain.spec.field_table import JOB_SPEC, OUTPUT_ONLY
from tui.domain.spec.spec_format import bodies, format_of, reported_as, standing_alone


@dataclass(frozen=True, slots=True)
class Imported:
    """The text of a profile, a name for its file, and notes on omitted parts."""

    name: str
    text: str
    notes: tuple[str, ...] = ()


def from_text(text: str, file: str, config: gcloud.Config, around: Surroundings | None = None) -> Imported:
    """Import a gcloud command line, a gcloud config file, a REST body or a profile.

    `around` describes a script's surroundings; the path of a package is relative to its folder.

    A YAML file keeps its comments. Fields that the service fills are left out.

    Raises:
        ProfileInvalid: with every problem that prevents a profile, at its line of `text`.
        OSError: if the file that a command line names can't be read.
    """
    if (manifest := _of_manifest(text, file)) is not None:
        return manifest
    text = first_document(text)
    if is_command(text) and not _is_document(text):
        base = around.base if around else ""
        return from_command(gcloud.parse(text, file, config, around), file, base)
    document = read(text, file, repeated=True)
    try:
        if document.repeated:
            return _of_repeated(text, document)
        return _from_document(text, document)
    except ProfileInvalid as error:
        raise ProfileInvalid([_in_source(p, document) for p in error.problems]) from error


def _of_manifest(text: str, file: str) -> Imported | None:
    """Import a Kubernetes manifest unchanged, without fields that only a cluster fills. Returns `None` for
    other texts."""
    try:
        document = read(text, file, repeated=True, several=True)
    except ProfileInvalid:
        return None
    format = standing_alone(top_names(document.value))
    if format is None or format.family != "kubernetes":
        return None
    if not has_job(document.value):
        if not document.several:
            return None
        kinds = ", ".join(dict.fromkeys(str(obj.get("kind")) for obj in document.value))
        fix = "Apply the file with kubectl, or import the file of a job."
        raise ProfileInvalid(
            [replace(document.problem((), f"the file contains no job, only {kinds}."), fix=fix)]
        )
    name = job_title(document.value) or stem(file)
    edits = cleaning(document.value)
    edited = apply(text, file, edits)
    load(edited, file, name)
    lost = [dotted(edit.path) for edit in edits]
    notes = (f"left out {', '.join(lost)}: only the cluster sets these fields",) if lost else ()
    return Imported(slug(name), edited, notes)


def _of_repeated(text: str, document: Document) -> Imported:
    """Import a file with repeated keys, which gcloud accepts; the profile has no repeated keys."""
    profile = load(text, document.file, stem(document.file))
    notes = tuple(f"line {p.line}: {p.message}" for p in repeated_keys(document))
    value = {"displayName": profile.name, profile.format.body: dict(profile.body)}
    return Imported(slug(profile.name), render_new(value), notes)


def _from_document(text: str, document: Document) -> Imported:
    """Import a document. Raised problems have locations in the profile, not in the document."""
    value, file = document.value, document.file
    if not isinstance(value, Mapping):
        raise ProfileInvalid([document.problem((), "the file must have the fields of a custom job.")])
    if _is_request(value):
        inner = json.dumps(next(iter(value.values())))
        return _from_document(inner, read(inner, file))
    if other := foreign(value):
        raise ProfileInvalid([document.problem((), other, COMPILE)])
    _check_pipeline(document)
    if is_compiled(value):
        return _from_compiled(value, file)
    if _is_resource(value):
        return from_resource(value)
    name = str(value.get("displayName") or value.get("display_name") or stem(file))
    bare = None
    dropped = [key for key in value if camel(key) in OUTPUT_ONLY]
    edits = [Edit((key,), REMOVED) for key in dropped]
    notes = tuple(f"{key} was left out: {OUTPUT_ONLY[camel(key)]}." for key in dropped)
    if standing_alone(set(map(camel, value))):
        bare = load(apply(text, file, edits), file, name)
        refused = task_problems(bare.job_spec, document)
        notes = (*notes, *(f"line {p.line}: {p.message} {p.fix}" for p in refused))
    if is_json(text):
        kept = {k: v for k, v in value.items() if k not in dropped}
        profile_text = render_new(_value(load(json.dumps(kept), file, name)))
    else:
        if not value.keys() & {"displayName", "display_name"}:
            edits.append(Edit(("displayName",), name))
        profile_text = apply(text, file, edits)
    if bare is not None and not _says(profile_text, file, bare.body):
        # Below a header the names in the file have another meaning.
        profile_text = render_new({"displayName": name, bare.format.body: dict(bare.body)})
    load(profile_text, file, name)
    return Imported(slug(name), profile_text, notes)


def _check_pipeline(document: Document) -> None:
    """Raise ProfileInvalid for a compiled pipeline, or a pipeline job, that no compiler can create."""
    value = document.value
    where: Path = () if is_compiled(value) else ("pipelineSpec",)
    spec = value.get("pipelineSpec") if where else value
    if isinstance(spec, Mapping) and (broken := reading_of(spec).problems):
        raise ProfileInvalid([document.problem((*where, *at), f"it {error}.", AGAIN) for at, error in broken])


def _from_compiled(spec: Mapping[str, Any], file: str) -> Imported:
    """Import a compiled pipeline as a profile that contains it."""
    value, notes = of_compiled(spec, stem(file))
    profile_text = render_new(value)
    load(profile_text, file, stem(file))
    return Imported(slug(str(value["displayName"])), profile_text, notes)


def _says(text: str, file: str, body: Mapping[str, Any]) -> bool:
    try:
        return load(text, file, "").body == body
    except ProfileInvalid:
        return False


def _is_request(value: Mapping[str, Any]) -> bool:
    """Return whether the only field, e.g. `customJob`, names the created resource rather than the body of a
    header."""
    keys = {format_of(body).resource_key for body in bodies()} - set(bodies())
    return len(value) == 1 and set(map(camel, value)) <= keys


def _is_resource(value: Mapping[str, Any]) -> bool:
    """Return whether the value is a job as the service reports it, or a request without a profile's
    header."""
    reported = reported_as(value)
    return reported is not None and ("name" in value or reported.sign not in header_fields())


def _in_source(problem: Problem, document: Document) -> Problem:
    """Return a problem of the generated profile, with its location in the document."""
    value, path = document.value, problem.path
    outer: Path = ()
    if isinstance(value, Mapping) and _is_request(value):
        [(key, value)] = value.items()
        outer = (key,)
    names = set(map(camel, value)) if isinstance(value, Mapping) else set()
    if path and path[0] in bodies() and path[0] not in names:
        path = path[1:]
    path = (*outer, *path)
    line, column = document.place(path)
    return replace(problem, file=document.file, line=line, column=column, path=path, field=dotted(path))


def _is_document(text: str) -> bool:
    """Return whether the text is a document with a job's fields, even if one of the values calls gcloud."""
    try:
        value = read(text, "").value
    except ProfileInvalid:
        return False
    names = set(map(camel, value)) if isinstance(value, Mapping) else set()
    formats = [format_of(body) for body in bodies()]
    if is_compiled(names) or (isinstance(value, Mapping) and foreign(value)):
        return True
    known = {*header_fields(), *JOB_SPEC.fields, *(x for f in formats for x in (f.resource_key, f.sign))}
    return bool(names & known)


def from_resource(resource: Mapping[str, Any]) -> Imported:
    """Import a job as the service reports it (REST format), without fields that only the service fills.
    Raises ProfileInvalid if the job has unknown fields, or no profile can describe its kind."""
    format = reported_as(resource)
    name = str(resource.get("name", "")) or (format.resource_title(resource) if format else "")
    if format is None:
        raise ProfileInvalid([Problem(name, 0, "", "a profile can't describe a job of this kind.")])
    job, notes = format.header(resource)
    labels = {k: v for k, v in (job.pop("labels", None) or {}).items() if k != LAUNCH_LABEL}
    display_name = str(job.get("displayName") or "job")
    value = _value(load(json.dumps(job), name, display_name))
    region = re.search(r"/locations/([a-z0-9-]+)/", name)
    value |= {"region": region[1]} if region else {}
    value |= {"labels": labels} if labels else {}
    source = f"# A copy of {name}.\n" if re.fullmatch(r"[\w/.-]+", name) else ""
    return Imported(slug(display_name), source + render_new(value), notes)


def from_command(command: gcloud.GcloudCreate, file: str, base: str = "") -> Imported:
    """Import a command line; values from outside the script become parameters. Raises ProfileInvalid if the
    flags' values are not a valid job."""
    value = of_command(command, file, base)
    name = slug(str(value["displayName"]))
    try:
        load(json.dumps(value), file, name)
    except ProfileInvalid as error:
        # The line numbers refer to a file that does not exist.
        raise ProfileInvalid([replace(p, line=0, column=0) for p in error.problems]) from error
    profile_text = render_new(value)
    load(profile_text, file, name)
    return Imported(name, profile_text, command.notes)


def of_command(command: gcloud.GcloudCreate, file: str, base: str = "") -> dict[str, Any]:
    """Return the fields of a command line's profile, valid or not."""
    value = {k: v for k, v in command.job.items() if v}
    value |= {"region": command.region} if command.region else {}
    if command.package:
        path = posixpath.normpath(posixpath.join(base, command.package["path"]))
        value["package"] = {**command.package, "path": path}
    if command.parameters:
        value["parameters"] = {name: dict(settings) for name, settings in command.parameters.items()}
    value.setdefault("displayName", stem(file))
    return value


def _value(profile: Profile) -> dict[str, Any]:
    """Return a profile as plain values, with its spec in REST format."""
    header = profile.document.value
    value: dict[str, Any] = {"displayName": profile.display_name}
    value |= {"description": profile.description} if profile.description else {}
    placed = profile.format.place(profile.body)
    value |= {"region": profile.region} if profile.region and profile.region != placed else {}
    value |= {"labels": dict(profile.labels)} if profile.labels else {}
    value |= {"parameters": header["parameters"]} if profile.references else {}
    value |= {"package": dict(profile.package)} if profile.package else {}
    value |= {"progress": dict(profile.progress)} if profile.progress else {}
    value |= {"encryptionSpec": dict(profile.encryption)} if profile.encryption is not None else {}
    return {**value, profile.format.body: profile.format.as_written(profile.body)}
