"""Exports a request as a gcloud command, a curl script or a Python program."""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tui.domain.core.formatting import pieces
from tui.domain.core.resource_name import log_project
from tui.domain.core.text import json_text, plain
from tui.domain.interchange import gcloud_command
from tui.domain.interchange.imports import from_resource
from tui.domain.interchange.python_code import EnvironmentValue, JoinedText, python_code
from tui.domain.kubernetes.export import kubectl_yaml
from tui.domain.masking import concealed, mask_text
from tui.domain.profile import Profile, Request, load
from tui.domain.spec.spec_format import SpecFormat, format_of
from tui.domain.spec.values import PLACEHOLDER
from tui.domain.vertex.packaging import runs_package

PROJECT = "PROJECT_ID"
"""Placeholder for an unknown project."""

REPLACE = "REPLACE_WITH_"
"""Prefix of a secret's placeholder, before the name of its variable or flag."""

JOB_SPEC, TUNING_JOB = "jobSpec", "tuningJob"
"""The only request bodies that gcloud can create."""
KUBECTL = "kubectl"
FORMS = ("gcloud", "rest", "python")
"""Export formats for Vertex AI."""
ALL_FORMS = (*FORMS, KUBECTL)

WIDE = 96
"""Width of a note in a file's header, in characters."""

SUFFIXES = {"gcloud": ".sh", "rest": ".sh", "python": ".py", KUBECTL: ".yaml"}
_CLUSTER = "kubernetes"


@dataclass(frozen=True, slots=True)
class Exported:
    """An export: its text, the command that uses it ("" if the text is a command), and notes. If the format
    can't describe the job, `problem` has the reason and the text is empty. The notes name omitted parts."""

    text: str
    command: str = ""
    notes: tuple[str, ...] = ()
    problem: str = ""


def export(
    profile: Profile,
    request: Request,
    form: str,
    *,
    project: str,
    region: str,
    file: str = "",
    reveal: bool = False,
) -> Exported:
    """Export `request` of `profile` in a format of ALL_FORMS.

    `gcloud` is a command with its config as a here-document. With a `file`, the text is the config for that
    file, and the command uses the file.

    If `project` is empty, the text has PROJECT instead, with a note. Secrets are left out unless `reveal`: a
    program reads them from its environment, the other formats have a placeholder.
    """
    format = format_of(request.body)
    if (format.family == _CLUSTER) != (form == KUBECTL):
        return Exported("", problem=_other_side(format, profile.name))
    request, left_out = (request, ()) if reveal else _without_secrets(request, form)
    notes = (*left_out, *_no_task(profile, request), *_lost(profile), *_without_wrapper(request, form))
    if not project and form in {"rest", "python"}:
        notes = (*notes, f"replace {PROJECT} with your project; the context is this machine")
    remarks = _remarks(profile, notes)
    if form == KUBECTL:
        return Exported(kubectl_yaml(request.custom_job, request.region, remarks), notes=notes)
    if form == "gcloud":
        return replace(_gcloud(request, project, region, file, remarks), notes=notes)
    project = project or PROJECT
    if form == "rest":
        return Exported(_rest(request, project, region, remarks), notes=notes)
    text = python_code(format_of(request.body), request.resource, project, region, remarks)
    return Exported(text, notes=notes)


def forms_of(profile: Profile) -> tuple[str, ...]:
    """Return the formats that can describe a launch of this profile."""
    return (KUBECTL,) if profile.format.family == _CLUSTER else FORMS


def _other_side(format: SpecFormat, name: str) -> str:
    """Return why this format can't be exported to the other service family, and the alternative."""
    if format.family == _CLUSTER:
        return f"a {format.body} is for a cluster; export it with --as {KUBECTL}."
    way = f"`vxtui profiles convert {name} --to {_CLUSTER}` makes a manifest for {KUBECTL}"
    return f"a {format.body} is for Vertex AI; {way}."


def export_job(
    resource: Mapping[str, Any],
    form: str,
    *,
    project: str,
    region: str = "",
    file: str = "",
    reveal: bool = False,
) -> Exported:
    """Export a job as the service reports it (REST format), like the request that created it. Raises
    ProfileInvalid for a job whose kind no profile can describe."""
    imported = from_resource(resource)
    profile = load(imported.text, str(resource.get("name", "")), imported.name)
    request = profile.check(region=region).request
    place, project = request.region, log_project(str(resource.get("name", "")), project) if project else ""
    done = export(profile, request, form, project=project, region=place, file=file, reveal=reveal)
    return replace(done, notes=(*imported.notes, *done.notes))


def _without_secrets(request: Request, form: str) -> tuple[Request, tuple[str, ...]]:
    """Return the request with a placeholder for each secret, and a note about the replacements."""
    names: dict[str, None] = {}
    # The job's texts do not contain this character. An environment variable becomes an object as soon as it
    # is read.
    present = set(json.dumps(request.custom_job, ensure_ascii=False, default=str))
    end = next(character for character in map(chr, range(0xE000, 0x110000)) if character not in present)

    def cover(name: str) -> str:
        variable = re.sub(r"\W+", "_", name).strip("_").upper() or "SECRET"
        names[variable] = None
        return f"{end}{variable}{end}" if form == "python" else f"{REPLACE}{variable}"

    job, count = concealed(request.custom_job, request.secrets, cover)
    if not count:
        return request, ()
    if form == "python":
        job = _with_values(job, end)
        instruction = f"set {', '.join(names)} in the environment before you run it"
    else:
        instruction = f"replace {', '.join(f'{REPLACE}{name}' for name in names)}, or export with --reveal"
    return replace(request, custom_job=job), (f"{pieces(count, 'secret')} left out: {instruction}",)


def _with_values(spec: Any, end: str) -> Any:
    """Return the specification with an object in place of each name between two `end`."""
    if isinstance(spec, Mapping):
        return {key: _with_values(value, end) for key, value in spec.items()}
    if isinstance(spec, list):
        return [_with_values(value, end) for value in spec]
    if not isinstance(spec, str) or end not in spec:
        return spec
    parts = enumerate(spec.split(end))
    return JoinedText(tuple(EnvironmentValue(part) if at % 2 else part for at, part in parts if part))


def _lost(profile: Profile) -> tuple[str, ...]:
    """Return notes on parts of a profile that a request omits."""
    notes = []
    if profile.parameters:
        names = ", ".join(p.name for p in profile.parameters)
        notes.append(f"parameters are filled in and can no longer be set: {names}")
    counted = [name for name in PLACEHOLDER.findall(profile.display_name) if name != "profile"]
    if counted:
        words = ", ".join(f"{{{name}}}" for name in dict.fromkeys(counted))
        notes.append(
            f"each run creates a job with the same name: only a launch by vxtui fills in {words} again"
        )
    if profile.description:
        notes.append("the description remains only as a comment")
    return tuple(notes)


def _without_wrapper(request: Request, form: str) -> tuple[str, ...]:
    """Return a note on the body around the custom job, which gcloud's format omits."""
    if form != "gcloud" or request.body in {JOB_SPEC, TUNING_JOB} or "jobSpec" not in request.custom_job:
        return ()
    return (f"the export creates only the custom job: {form} can't create the {request.body} around it",)


def _no_task(profile: Profile, request: Request) -> tuple[str, ...]:
    """Return a note on pools whose package is not built yet, with the remedy."""
    if request.package is None:
        return ()
    pools = (request.custom_job.get("jobSpec") or {}).get("workerPoolSpecs") or []
    bare = [str(position) for position, pool in enumerate(pools) if runs_package(pool or {})]
    if not bare:
        return ()
    which = f"pool {bare[0]} has" if len(bare) == 1 else f"pools {', '.join(bare)} have"
    return (
        f"{which} no task yet: an export does not pack the folder {request.package.path}, and the service "
        f"refuses the request as it is. Launch it with `vxtui launch {profile.name}`, which "
        "packs the folder, or build an image of it and write its URI there as containerSpec.imageUri",
    )


def _remarks(profile: Profile, notes: tuple[str, ...]) -> list[str]:
    """Return comment lines for the header of a file."""
    lines = [f"{profile.name or profile.display_name}, exported by vxtui."]
    lines += [" ".join(line.split()) for line in mask_text(profile.description).splitlines()]
    for note in notes:
        lines += textwrap.wrap(" ".join(f"Note: {note}.".split()), WIDE, subsequent_indent="  ")
    return [_comment(line) for line in lines]


def _comment(line: str) -> str:
    """Return a line that is safe in a comment of any exported language."""
    return "".join(c if c.isprintable() else "\ufffd" for c in plain(line))


def _command(request: Request, project: str, region: str) -> gcloud_command.Command:
    if "jobSpec" not in request.custom_job:
        message = f"gcloud has no command that creates a {request.body}; export it for curl (rest) or Python."
        raise gcloud_command.NotExpressible(message)
    if request.body == TUNING_JOB:
        return gcloud_command.of_tuning(request.resource, project=project, region=region)
    unfinished = request.package is not None
    return gcloud_command.of(request.custom_job, project=project, region=region, unfinished=unfinished)


def _gcloud(request: Request, project: str, region: str, file: str, remarks: list[str]) -> Exported:
    """Return the command, or the config for `file` with the command that uses the file; without notes."""
    try:
        command = _command(request, project, region)
    except gcloud_command.NotExpressible as error:
        return Exported("", problem=str(error))
    if not file:
        return Exported(command.with_config_inside(remarks))
    line = command.with_config_in(file)
    shown = [*remarks, "Use it with:", *(f"  {_comment(part)}" for part in line.splitlines())]
    return Exported("".join(f"# {line_shown}\n" for line_shown in shown) + command.whole, line)


def _rest(request: Request, project: str, region: str, remarks: list[str]) -> str:
    """Return a script that posts the body with curl."""
    collection = format_of(request.body).collection
    url = f"https://{region}-aiplatform.googleapis.com/v1/projects/{project}/locations/{region}/{collection}"
    body = json_text(request.resource, indent=2)
    head = "".join(f"# {line}\n" for line in remarks)
    return (
        f"#!/bin/sh\n{head}"
        "curl --fail-with-body -sS -X POST \\\n"
        '  -H "Authorization: Bearer $(gcloud auth print-access-token)" \\\n'
        '  -H "Content-Type: application/json; charset=utf-8" \\\n'
        "  --data-binary @- \\\n"
        f"  {shlex.quote(url)} <<'JSON'\n{body}\nJSON\n"
    )
