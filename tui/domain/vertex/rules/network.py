"""Rules about networks and accounts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tui.domain.document.document_edit import REMOVED, Edit
from tui.domain.document.source import ProblemSeverity
from tui.domain.spec.custom_job_spec import machine_of
from tui.domain.spec.findings import Case, Finding, Rule
from tui.domain.vertex.sources import DOCS, SPEC, TRAINING

NO_PEERING = frozenset({"NVIDIA_H100_MEGA_80GB", "NVIDIA_H200_141GB", "NVIDIA_B200"})
_NETWORK = re.compile(r"projects/(?P<project>[^/]+)/global/networks/(?P<name>[^/]+)")
_ATTACHMENT = re.compile(r"projects/[^/]+/regions/[^/]+/networkAttachments/[^/]+")
_RANGE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_ACCOUNT = re.compile(r"[^@\s/]+@[^@\s/]+")
_PATH = ("jobSpec", "network")
_PSC = ("jobSpec", "pscInterfaceConfig")


def form(case: Case) -> Iterator[Finding]:
    name = str(case.spec.get("network") or "")
    if name and not _NETWORK.fullmatch(name):
        fix = "Write projects/NUMBER/global/networks/NAME, with the number of the project."
        yield Finding(_PATH, f"{name} must be the full name of a network.", fix)


def project_number(case: Case) -> Iterator[Finding]:
    match = _NETWORK.fullmatch(str(case.spec.get("network") or ""))
    if match and not match["project"].isdecimal():
        yield Finding(
            _PATH,
            f"the network has the project's id {match['project']}, but must use the project number.",
            f"`gcloud projects describe {match['project']} --format='value(projectNumber)'` prints it.",
        )


def ranges(case: Case) -> Iterator[Finding]:
    for i, name in enumerate(case.spec.get("reservedIpRanges") or []):
        if not _RANGE.fullmatch(str(name)):
            yield Finding(
                ("jobSpec", "reservedIpRanges", i),
                f"{name or 'an empty text'} must be the name of a range, not an address.",
                "Write the range's name, e.g. vertex-ai-ip-range, or remove the list to use any range.",
            )


def ranges_alone(case: Case) -> Iterator[Finding]:
    if case.spec.get("reservedIpRanges") and not case.spec.get("network"):
        yield Finding(
            ("jobSpec", "reservedIpRanges"),
            "reserved ranges need a peered network, but network is not set.",
            "Set network, or remove the ranges.",
        )


def peering(case: Case) -> Iterator[Finding]:
    if not case.spec.get("network"):
        return
    for path, pool in case.used:
        name, kind, _ = machine_of(pool)
        if kind in NO_PEERING:
            yield Finding(
                _PATH,
                f"{name} in pool {path[-1]} can't be peered with a network.",
                "Remove network and use pscInterfaceConfig with a network attachment.",
            )
            return


def attachment(case: Case) -> Iterator[Finding]:
    config = case.spec.get("pscInterfaceConfig")
    if config is None:
        return
    name = str(config.get("networkAttachment") or "")
    # The documentation accepts "the name or full path".
    if name and not _ATTACHMENT.fullmatch(name) and not _RANGE.fullmatch(name):
        yield Finding(
            (*_PSC, "networkAttachment"),
            f"{name} must be the name of a network attachment.",
            "Write the attachment's name, or projects/P/regions/R/networkAttachments/NAME.",
        )


def dns(case: Case) -> Iterator[Finding]:
    for i, peer in enumerate((case.spec.get("pscInterfaceConfig") or {}).get("dnsPeeringConfigs") or []):
        path = (*_PSC, "dnsPeeringConfigs", i)
        domain = str(peer.get("domain") or "")
        if not domain.endswith("."):
            right = f"{domain}."
            fix = f'Write "{right}".' if domain else 'Add the domain, for example "my.domain.".'
            edits = (Edit((*path, "domain"), right),) if domain else ()
            sentence = f"the DNS domain {domain or '(none)'} must end with a dot."
            yield Finding((*path, "domain"), sentence, fix, edits)


def dns_target(case: Case) -> Iterator[Finding]:
    for i, peer in enumerate((case.spec.get("pscInterfaceConfig") or {}).get("dnsPeeringConfigs") or []):
        for field, noun in (("targetProject", "project"), ("targetNetwork", "network")):
            if not peer.get(field):
                yield Finding(
                    (*_PSC, "dnsPeeringConfigs", i, field),
                    f"the DNS peering must have a target {noun}.",
                    f"Set {field}.",
                )


def both(case: Case) -> Iterator[Finding]:
    if case.spec.get("network") and case.spec.get("pscInterfaceConfig"):
        yield Finding(
            _PSC,
            "network (peering) and pscInterfaceConfig (an interface) both connect to your network; the "
            "documentation does not say that they work together.",
            "Remove one of the two fields, preferably network.",
        )


def account(case: Case) -> Iterator[Finding]:
    name = str(case.spec.get("serviceAccount") or "")
    if name and not _ACCOUNT.fullmatch(name):
        where = ("jobSpec", "serviceAccount")
        right = name.removeprefix("serviceAccount:")
        right = right.rsplit("/", 1)[-1]
        edits = (Edit(where, right),) if _ACCOUNT.fullmatch(right) else ()
        fix = f"Write {right}." if edits else "Write NAME@PROJECT.iam.gserviceaccount.com."
        yield Finding(where, f"{name} must be the e-mail address of a service account.", fix, edits)


def member_prefix(case: Case) -> Iterator[Finding]:
    name = str(case.spec.get("serviceAccount") or "")
    if name.startswith("serviceAccount:") and _ACCOUNT.fullmatch(name):
        where = ("jobSpec", "serviceAccount")
        right = name.removeprefix("serviceAccount:")
        sentence = "the prefix serviceAccount: belongs to IAM policies, not to this field."
        yield Finding(where, sentence, f"Write {right}.", (Edit(where, right),))


def protected_location(case: Case) -> Iterator[Finding]:
    where = ("jobSpec", "protectedArtifactLocationId")
    if case.region and case.spec.get("protectedArtifactLocationId") == case.region:
        sentence = "protectedArtifactLocationId is only for a region other than the job's own."
        yield Finding(where, sentence, "Remove it.", (Edit(where, REMOVED),))


RULES = (
    Rule("network.form", SPEC, form),
    Rule("network.project-number", SPEC, project_number),
    Rule("network.ranges", SPEC, ranges),
    Rule("network.ranges-alone", SPEC, ranges_alone, ProblemSeverity.WARNING),
    Rule("network.peering", f"{TRAINING}/using-private-ip", peering),
    Rule("network.attachment", f"{TRAINING}/psc-i-egress", attachment),
    Rule("network.dns", SPEC, dns),
    Rule("network.dns-target", SPEC, dns_target, ProblemSeverity.WARNING),
    Rule("network.both", SPEC, both, ProblemSeverity.WARNING),
    Rule("access.service-account", f"{DOCS}/machine-learning/troubleshooting", account),
    Rule("access.member-prefix", SPEC, member_prefix, ProblemSeverity.WARNING),
    Rule("access.protected-location", SPEC, protected_location, ProblemSeverity.WARNING),
)
