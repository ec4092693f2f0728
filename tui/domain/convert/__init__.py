"""Convert a profile between Vertex AI and Kubernetes, and report each difference."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tui.domain.convert.source import CannotConvert, ConversionSource, Difference
from tui.domain.convert.to_kubernetes import to_manifest
from tui.domain.convert.to_vertex import dropped_words, to_job_spec
from tui.domain.document.source import Path, dotted
from tui.domain.kubernetes.workloads import by_kind
from tui.domain.profile.edit import render_new
from tui.domain.profile.model import Profile, load, path_in_file
from tui.domain.profile.parameters import references

__all__ = ["CannotConvert", "Converted", "Difference", "convert", "families"]

WIDE = 96
_VERTEX, _KUBERNETES = "vertex", "kubernetes"
_WHOLE = {
    "tuningJob": "a study of trials has no counterpart on a cluster that vxtui supports.",
    "pipelineJob": "a pipeline of tasks has no counterpart on a cluster that vxtui supports.",
}
_DROPPED = {
    "region": "the cluster determines the location, and a launch names a namespace.",
    "encryptionSpec": "the cluster's own settings determine the encryption of disks.",
    "package": "a pod can't get a folder: build an image of it.",
    "diskSpec": "the node pool determines the boot disk.",
    "reservationAffinity": "the node pool determines the reservation.",
    "serviceAccount": "a Kubernetes service account bound to it is named instead (serviceAccountName).",
    "network": "the cluster's network is used.",
    "pscInterfaceConfig": "the cluster's network is used.",
    "reservedIpRanges": "the cluster's network is used.",
    "tensorboard": "TensorBoard reads the log folder itself.",
    "enableWebAccess": "exec opens a shell in any container.",
    "persistentResourceId": "the cluster's nodes already exist.",
    "restartJobOnWorkerRestart": "only the failed pod restarts, and the others wait for it.",
    "disableRetries": "restartPolicy and backoffLimit determine the retries.",
    "maxWaitDuration": "a pod waits without a limit; Kueue has its own limits.",
    "nfsMounts": "add a volume of type nfs.",
    "lustreMounts": "add a volume claim of a Lustre class.",
    "pythonPackageSpec": "the image must contain the code; a pod installs nothing at its start.",
}


@dataclass(frozen=True, slots=True)
class Converted:
    """The converted profile's text, and its differences from the source."""

    text: str
    differences: tuple[Difference, ...]


def families() -> tuple[str, str]:
    """Return the formats between which profiles are converted."""
    return _KUBERNETES, _VERTEX


def convert(profile: Profile, to: str, kind: str = "PyTorchJob") -> Converted:
    """Convert the job into a profile for the side `to`; `kind` is the kind of the object on a cluster. Raises
    CannotConvert if the job has no counterpart."""
    if profile.format.family == to:
        raise CannotConvert(f"the profile {profile.name} is already for {to}.")
    if profile.format.body in _WHOLE:
        raise CannotConvert(_WHOLE[profile.format.body], "Convert a profile of one trial's or task's job.")
    source = ConversionSource(
        plain_values(profile), {p.name: p.default for p in profile.parameters if p.default is not None}
    )
    if to == _KUBERNETES:
        header, body = _manifest(source, profile, kind)
    else:
        header, spec = to_job_spec(source)
        body = {"jobSpec": spec}
    parameters = source.take("parameters")
    _name_rest(source, to)
    value = {**header, **({"parameters": parameters} if parameters else {}), **body}
    value = _without_unused(source, value)
    if not profile.references:
        value.pop("parameters", None)
    differences = tuple(
        replace(difference, place=_place(profile, difference)) for difference in source.differences
    )
    text = _head(profile, differences) + render_new(value)
    load(text, f"{profile.name}.yaml", profile.name)
    return Converted(text, differences)


def _place(profile: Profile, difference: Difference) -> str:
    """Return the location of a difference in the source's file."""
    path = difference.path
    if not path:
        return ""
    if path[:1] == ("manifest",):
        path = profile.format.in_file(("manifest", "objects", *path[1:]), profile.document.value)
    else:
        path = path_in_file(path, profile.spec_path)
    return dotted(path)


def _manifest(source: ConversionSource, profile: Profile, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    workload = by_kind(kind)
    if workload is None:
        raise CannotConvert(
            f"{kind} is not a kind of training job.", "Use --kind PyTorchJob, TrainJob or another."
        )
    if profile.format.body == "trainingPipeline":
        source.say("only the job that the training pipeline runs is converted.", ("trainingPipeline",))
    result = to_manifest(source, workload)
    objects = result.objects
    return result.header, {"manifest": objects[0] if len(objects) == 1 else objects}


def plain_values(profile: Profile) -> dict[str, Any]:
    """Return a profile as plain values with references: the header, and `jobSpec` or a `manifest` list."""
    header: dict[str, Any] = {"displayName": profile.display_name}
    header |= {"description": profile.description} if profile.description else {}
    header |= {"labels": dict(profile.labels)} if profile.labels else {}
    header |= {"parameters": profile.document.fields["parameters"]} if profile.references else {}
    header |= {"package": dict(profile.package)} if profile.package else {}
    header |= {"progress": dict(profile.progress)} if profile.progress else {}
    header |= {"encryptionSpec": dict(profile.encryption)} if profile.encryption is not None else {}
    if profile.format.family == _KUBERNETES:
        return {**header, "manifest": list(profile.body.get("objects") or [])}
    header |= {"region": profile.region} if profile.region else {}
    return {**header, "jobSpec": dict(profile.job_spec)}


def _name_rest(source: ConversionSource, to: str) -> None:
    """Report every value that the conversion has not used."""
    for path in source.left():
        names = [part for part in path if isinstance(part, str)]
        if to == _VERTEX:
            source.say(_object_words(source, path) or dropped_words(path), path)
        else:
            words = next((_DROPPED[name] for name in reversed(names) if name in _DROPPED), "")
            source.say(words or "it has no counterpart on a cluster.", path)


def _object_words(source: ConversionSource, path: Path) -> str:
    if len(path) != 2 or path[0] != "manifest":
        return ""
    value = source.get(*path)
    kind = value.get("kind") if isinstance(value, Mapping) else "object"
    return f"the {kind} has no counterpart on Vertex AI."


def _without_unused(source: ConversionSource, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the profile without unused parameters."""
    parameters = value.get("parameters")
    if not isinstance(parameters, Mapping):
        return dict(value)
    used = {name for name, _ in references({k: v for k, v in value.items() if k != "parameters"})}
    gone = [name for name in parameters if name not in used]
    before = {name for name, _ in references({k: v for k, v in source.value.items() if k != "parameters"})}
    for name in gone:
        if name in before:
            source.say("the result does not depend on it.", ("parameters", name))
    kept = {name: setting for name, setting in parameters.items() if name in used or name not in before}
    rest = {k: v for k, v in value.items() if k != "parameters"}
    return {**rest, **({"parameters": kept} if kept else {})}


def _head(profile: Profile, differences: Sequence[Difference]) -> str:
    """Return the comments at the top of the file: its origin and the differences."""
    lines = [f"Converted from the profile {profile.name} by `vxtui profiles convert`."]
    for difference in differences:
        lines += textwrap.wrap(" ".join(f"- {difference}".split()), WIDE, subsequent_indent="  ")
    clean = ("".join(c if c.isprintable() else "\ufffd" for c in line) for line in lines)
    return "".join(f"# {line}\n" for line in clean)
