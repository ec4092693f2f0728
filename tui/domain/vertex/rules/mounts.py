"""Rules about file systems, reservations and persistent resources."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tui.domain.document.document_edit import REMOVED, Edit
from tui.domain.document.source import ProblemSeverity
from tui.domain.spec.custom_job_spec import machine_of, within
from tui.domain.spec.findings import Case, Finding, Rule
from tui.domain.vertex.sources import EMULATOR, SPEC, TRAINING, UNDOCUMENTED

RESERVATION_KEY = "compute.googleapis.com/reservation-name"
_FIELDS = {
    "nfsMounts": ("server", "path", "mountPoint"),
    "lustreMounts": ("instanceIp", "volumeHandle", "filesystem", "mountPoint"),
}
_PLACES = {"nfsMounts": "/mnt/nfs/", "lustreMounts": "/mnt/lustre/"}
_RESERVATION = re.compile(r"projects/[^/]+/zones/(?P<zone>[^/]+)/reservations/[^/]+")
_RESOURCE = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")


def _mounts(case: Case) -> Iterator[tuple[str, tuple[str | int, ...], dict[str, object]]]:
    for path, pool in case.used:
        for kind in _FIELDS:
            for i, mount in enumerate(pool.get(kind) or []):
                yield kind, (*path, kind, i), dict(mount)


def fields(case: Case) -> Iterator[Finding]:
    for kind, path, mount in _mounts(case):
        for field in _FIELDS[kind]:
            if not mount.get(field):
                yield Finding((*path, field), f"the mount must have {field}.", f"Set {field}.")
        where = str(mount.get("path") or "")
        if kind == "nfsMounts" and where and not where.startswith("/"):
            right = f"/{where}"
            sentence = f"the exported path {where} must be absolute."
            yield Finding((*path, "path"), sentence, f"Write {right}.", (Edit((*path, "path"), right),))


def mount_point(case: Case) -> Iterator[Finding]:
    for kind, path, mount in _mounts(case):
        mount_point, place = str(mount.get("mountPoint") or ""), _PLACES[kind]
        right = mount_point.removeprefix(place).strip("/")
        if mount_point.startswith("/") and right:
            yield Finding(
                (*path, "mountPoint"),
                f"a mount point must be a name below {place}, not the path {mount_point}.",
                f"Write {right}; the mount appears at {place}{right}.",
                (Edit((*path, "mountPoint"), right),),
            )


def reachable(case: Case) -> Iterator[Finding]:
    if case.spec.get("network") or case.spec.get("pscInterfaceConfig") or case.local:
        return
    if case.spec.get("persistentResourceId"):
        return
    for kind, path, _ in _mounts(case):
        if kind == "nfsMounts":
            yield Finding(
                path,
                "an NFS server has a private address, but the job is in no network that can reach it. "
                + UNDOCUMENTED,
                "Set pscInterfaceConfig, or network with peering.",
            )
            return


def reservation(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        affinity = within(pool, "machineSpec", "reservationAffinity") or {}
        if affinity.get("reservationAffinityType") != "SPECIFIC_RESERVATION":
            continue
        here = (*path, "machineSpec", "reservationAffinity")
        if affinity.get("key") != RESERVATION_KEY:
            where = (*here, "key")
            sentence = f"the key of a specific reservation must be {RESERVATION_KEY}."
            yield Finding(where, sentence, f"Write {RESERVATION_KEY}.", (Edit(where, RESERVATION_KEY),))
        if not affinity.get("values"):
            fix = "Write projects/P/zones/Z/reservations/NAME into values."
            yield Finding((*here, "values"), "the specific reservation must have a name.", fix)
        for i, name in enumerate(affinity.get("values") or []):
            match = _RESERVATION.fullmatch(str(name))
            if match is None:
                fix = "Write projects/P/zones/Z/reservations/NAME."
                yield Finding((*here, "values", i), f"{name} must be the full name of a reservation.", fix)


def reservation_region(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        for i, name in enumerate(within(pool, "machineSpec", "reservationAffinity", "values") or []):
            match = _RESERVATION.fullmatch(str(name))
            region = match["zone"].rpartition("-")[0] if match else ""
            if match and case.region and not case.local and region != case.region:
                yield Finding(
                    (*path, "machineSpec", "reservationAffinity", "values", i),
                    f"the reservation is in {match['zone']}, but the job is in {case.region}; a job "
                    "can't use machines of another region.",
                    f"Run the job in {region}, or use a reservation in {case.region}.",
                )


def reservation_names(case: Case) -> Iterator[Finding]:
    for path, pool in case.used:
        affinity = within(pool, "machineSpec", "reservationAffinity") or {}
        kind = affinity.get("reservationAffinityType")
        if kind in {"ANY_RESERVATION", "NO_RESERVATION"} and (affinity.get("values") or affinity.get("key")):
            here = (*path, "machineSpec", "reservationAffinity")
            yield Finding(
                here,
                f"{kind} uses no named reservation, but one is set.",
                "Write SPECIFIC_RESERVATION, or remove key and values.",
            )


def persistent_id(case: Case) -> Iterator[Finding]:
    name = str(case.spec.get("persistentResourceId") or "")
    if name and not _RESOURCE.fullmatch(name):
        where = ("jobSpec", "persistentResourceId")
        short = name.rsplit("/", 1)[-1]
        right = short if _RESOURCE.fullmatch(short) and "/persistentResources/" in name else ""
        edits = (Edit(where, right),) if right else ()
        fix = (
            f"Write {right}."
            if right
            else "Use at most 63 lowercase letters, digits and dashes, starting with a letter."
        )
        yield Finding(where, f"{name} must be the id of a persistent resource.", fix, edits)


def persistent_local(case: Case) -> Iterator[Finding]:
    if case.local and case.spec.get("persistentResourceId") and case.strategy == "FLEX_START":
        where = ("jobSpec", "persistentResourceId")
        sentence = "the emulator refuses FLEX_START on a persistent resource."
        yield Finding(
            where,
            sentence,
            "Remove persistentResourceId, or write strategy STANDARD.",
            (Edit(where, REMOVED),),
        )


def persistent_only(case: Case) -> Iterator[Finding]:
    if not case.spec.get("persistentResourceId"):
        return
    for path, pool in case.used:
        kind = within(pool, "machineSpec", "reservationAffinity", "reservationAffinityType")
        if kind in {"ANY_RESERVATION", "SPECIFIC_RESERVATION"}:
            where = (*path, "machineSpec", "reservationAffinity")
            sentence = "a job on a persistent resource can't use a reservation."
            yield Finding(where, sentence, "Remove it.", (Edit(where, REMOVED),))


def persistent_shape(case: Case) -> Iterator[Finding]:
    if not case.spec.get("persistentResourceId"):
        return
    if case.strategy == "FLEX_START" and not case.local:
        fix = "Remove persistentResourceId, or write strategy STANDARD."
        sentence = f"FLEX_START waits for new machines, but a persistent resource has its own. {UNDOCUMENTED}"
        yield Finding(("jobSpec", "persistentResourceId"), sentence, fix)
    if case.strategy == "SPOT":
        fix = "Remove the strategy; the machines already run."
        sentence = "whether Spot works on a persistent resource is not documented."
        yield Finding(("jobSpec", "scheduling", "strategy"), sentence, fix)
    for path, pool in case.used:
        if not machine_of(pool)[0] and not case.local:
            yield Finding(
                (*path, "machineSpec"),
                "on a persistent resource, machineSpec and diskSpec must match one of its pools; here they "
                "are missing.",
                "Copy both from the resource's pool.",
            )


RULES = (
    Rule("mounts.fields", SPEC, fields),
    Rule("mounts.point", SPEC, mount_point, ProblemSeverity.WARNING),
    Rule("mounts.network", SPEC, reachable, ProblemSeverity.WARNING),
    Rule("reservation.specific", SPEC, reservation),
    Rule("reservation.region", SPEC, reservation_region, ProblemSeverity.WARNING),
    Rule("reservation.names", SPEC, reservation_names, ProblemSeverity.WARNING),
    Rule("persistent.id", f"{TRAINING}/persistent-resource-create", persistent_id),
    Rule("persistent.local", EMULATOR, persistent_local),
    Rule("persistent.conflict", f"{TRAINING}/use-reservations", persistent_only),
    Rule("persistent.shape", SPEC, persistent_shape, ProblemSeverity.WARNING),
)
