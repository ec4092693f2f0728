"""Volumes of a pod as folders of this machine.

A process sees this machine's file system, so a mount path in a command, argument or variable is replaced by
the folder with its files. `/dev/shm` is this machine's own: the size limit of an emptyDir is not enforced.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

from tui.emulator.kubernetes.node.kubelet.folders import NodeFolder, PodFolder
from tui.emulator.kubernetes.node.kubelet.references import CannotCreate, Lookup, field_value, resource_value
from tui.emulator.kubernetes.resources import Obj

SHARED_MEMORY = "/dev/shm"
GCS_FUSE = "gcsfuse.csi.storage.gke.io"


class CannotMount(Exception):
    """A volume can't be set up; the text is the kubelet's message."""


def prepare_volumes(pod: Obj, folder: PodFolder, node: NodeFolder, lookup: Lookup) -> dict[str, Path]:
    """Create every volume and return the folders by name. Raises OSError, and
    CannotMount if a ConfigMap, Secret or claim does not exist; the caller retries."""
    folders = {}
    for volume in pod["spec"].get("volumes") or ():
        folders[volume["name"]] = _prepare(volume, pod, folder, node, lookup)
    return folders


def _prepare(volume: Obj, pod: Obj, folder: PodFolder, node: NodeFolder, lookup: Lookup) -> Path:
    name, namespace = volume["name"], pod["metadata"]["namespace"]
    if host_path := volume.get("hostPath"):
        return Path(host_path["path"])
    if claim := volume.get("persistentVolumeClaim"):
        lookup.bind_claim(claim["claimName"])
        target = node.claim(namespace, claim["claimName"])
    elif bucket := _bucket(volume):
        target = node.state.buckets / bucket
    else:
        target = folder.volume(name)
    target.mkdir(parents=True, exist_ok=True)
    files = _files(volume, pod, lookup)
    if files is not None:
        _write(target, files)
    return target


def _bucket(volume: Obj) -> str:
    csi = volume.get("csi") or {}
    if csi.get("driver") != GCS_FUSE:
        return ""
    return str((csi.get("volumeAttributes") or {}).get("bucketName") or "")


def _files(volume: Obj, pod: Obj, lookup: Lookup) -> dict[str, bytes] | None:
    """Return the files of a volume with object data, or None for other volumes."""
    try:
        if (source := volume.get("configMap")) is not None:
            return _items(source, lookup.config_map(source.get("name", "")))
        if (source := volume.get("secret")) is not None:
            return _items(source, lookup.secret(source.get("secretName", "")))
        if (source := volume.get("downwardAPI")) is not None:
            return _downward(source, pod)
        if (source := volume.get("projected")) is not None:
            files: dict[str, bytes] = {}
            for projection in source.get("sources") or ():
                part = _files(
                    {
                        k: ({**v, "secretName": v.get("name", "")} if k == "secret" else v)
                        for k, v in projection.items()
                    },
                    pod,
                    lookup,
                )
                files |= part or {}
            return files
    except CannotCreate as error:
        raise CannotMount(
            f'MountVolume.SetUp failed for volume "{volume.get("name", "")}" : {error}'
        ) from error
    return None


def _items(source: Obj, data: Mapping[str, bytes] | None) -> dict[str, bytes]:
    """Return the selected keys, or all. Raises CannotCreate."""
    if data is None:
        if source.get("optional"):
            return {}
        kind, name = (
            ("secret", source["secretName"]) if "secretName" in source else ("configmap", source["name"])
        )
        raise CannotCreate(f'{kind} "{name}" not found')
    items = source.get("items")
    if not items:
        return dict(data)
    chosen = {}
    for item in items:
        if item["key"] in data:
            chosen[item["path"]] = data[item["key"]]
        elif not source.get("optional"):
            raise CannotCreate(f"references non-existent config key: {item['key']}")
    return chosen


def _downward(source: Obj, pod: Obj) -> dict[str, bytes]:
    files = {}
    for item in source.get("items") or ():
        if reference := item.get("fieldRef"):
            text = field_value(pod, reference["fieldPath"])
        else:
            reference = item["resourceFieldRef"]
            text = resource_value(pod, reference.get("containerName", ""), reference, {})
        files[item["path"]] = text.encode()
    return files


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial")
        partial.write_bytes(data)
        partial.replace(path)
    for path in folder.iterdir():
        if path.name not in {PurePosixPath(name).parts[0] for name in files}:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def mounts_of(container: Obj, volumes: Mapping[str, Path], env: Mapping[str, str]) -> dict[str, str]:
    """Return mount path → path on this machine for one container."""
    mounts = {}
    for mount in container.get("volumeMounts") or ():
        path, base = str(mount["mountPath"]).rstrip("/") or "/", volumes.get(mount["name"])
        if path == SHARED_MEMORY or base is None:
            continue
        inner = str(mount.get("subPath") or "")
        if expression := mount.get("subPathExpr"):
            inner = re.sub(r"\$\(([^)]*)\)", lambda match: env.get(match[1], ""), expression)
        mounts[path] = str(base / inner) if inner else str(base)
        if inner and not Path(mounts[path]).exists():
            os.makedirs(mounts[path], exist_ok=True)  # noqa: PTH103 - the path is text here
    return mounts


def path_translator(mounts: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that replaces each mount path in a text, as a complete path or prefix."""
    if not mounts:
        return lambda text: text
    # Longest first: /data/cache before /data.
    paths = sorted(mounts, key=len, reverse=True)
    pattern = re.compile(rf"(?<![\w./-])({'|'.join(re.escape(path) for path in paths)})(?![\w.-])")
    return lambda text: pattern.sub(lambda match: mounts[match[1]], text)


def save_mounts(folder: PodFolder, mounts: Mapping[str, Mapping[str, str]]) -> None:
    folder.mounts.write_text(json.dumps(mounts))


def load_mounts(folder: PodFolder, container: str) -> dict[str, str]:
    """Return the mounts that `save_mounts` stored for this container."""
    try:
        mounts = json.loads(folder.mounts.read_text()).get(container)
    except (OSError, ValueError):
        return {}
    return dict(mounts or {})


def secret_data(obj: Obj) -> dict[str, bytes]:
    """Return the values of a Secret."""
    values = {key: base64.b64decode(value or "") for key, value in (obj.get("data") or {}).items()}
    return values | {key: str(value).encode() for key, value in (obj.get("stringData") or {}).items()}


def config_map_data(obj: Obj) -> dict[str, bytes]:
    """Return the values of a ConfigMap."""
    values = {key: str(value).encode() for key, value in (obj.get("data") or {}).items()}
    return values | {
        key: base64.b64decode(value or "") for key, value in (obj.get("binaryData") or {}).items()
    }
