"""Server-side checks of a new custom job: one small function per rule. All problems are reported at once.

The rules refuse only what the documentation excludes (docs/facts/vertex.md 1, 2 and 8). A problem is a field
path and a sentence that names the error and the valid values.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator

from tui.emulator.messages import Pb
from tui.emulator.storage.names import uri_problem
from tui.emulator.vertex.validate_pools import Problem, pool_problems
from tui.emulator.vertex.validate_scheduling import SCHEDULING_RULES

MAX_DISPLAY_NAME = 128
MAX_LABELS = 64
MAX_LABEL_LENGTH = 64
MAX_LABEL_BYTES = 128
LABEL_RULES = (
    "There can be no more than 64 labels attached to a single resource. Label keys and values can only "
    "contain lowercase letters, numbers, dashes and underscores. Label keys must start with a letter or "
    "number, must be less than 64 characters in length, and must be less that 128 bytes in length when "
    "encoded in UTF-8. Label values must be less than 64 characters in length, and must be less that 128 "
    "bytes in length when encoded in UTF-8."
)
"""Rules in Vertex AI's own message, with its typing errors (docs/facts/vertex.md 16)."""
MAX_POOLS = 4

_NETWORK = re.compile(r"projects/(?P<project>[^/]+)/global/networks/[^/]+")
_ATTACHMENT = re.compile(r"projects/[^/]+/regions/[^/]+/networkAttachments/[^/]+")
_TENSORBOARD = re.compile(r"projects/[^/]+/locations/[^/]+/tensorboards/[^/]+")
_CONTEXT = re.compile(r"projects/[^/]+/locations/[^/]+/metadataStores/[^/]+/contexts/[^/]+")
_KEY = re.compile(r"projects/[^/]+/locations/(?P<location>[^/]+)/keyRings/[^/]+/cryptoKeys/[^/]+")
_RANGE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL_START = re.compile(r"[^\W_]")
_ACCOUNT = re.compile(r"[^@\s/]+@[^@\s/]+")


def job_problems(custom_job: Pb, location: str) -> list[Problem]:
    """Return every reason to refuse a custom job in `location`; empty for a valid job."""
    return [
        *below("custom_job", resource_problems(custom_job, location)),
        *below("job_spec", spec_problems(custom_job.job_spec)),
    ]


def resource_problems(resource: Pb, location: str) -> Iterator[Problem]:
    """Yield the problems of name, labels and key. Paths are relative to the resource."""
    for rule in _RESOURCE_RULES:
        yield from rule(resource, location)


def spec_problems(spec: Pb) -> Iterator[Problem]:
    """Yield the problems with a CustomJobSpec. Paths are relative to the spec."""
    for rule in (*_SPEC_RULES, *SCHEDULING_RULES):
        yield from rule(spec)
    for position, pool in enumerate(spec.worker_pool_specs[:MAX_POOLS]):
        if not _empty(pool):
            yield from below(f"worker_pool_specs[{position}]", pool_problems(pool))


def below(prefix: str, problems: Iterable[Problem]) -> Iterator[Problem]:
    """Prefix the paths of the problems."""
    return ((f"{prefix}.{path}", text) for path, text in problems)


def _empty(pool: Pb) -> bool:
    return not pool.ListFields()


def _display_name(resource: Pb, _location: str) -> Iterator[Problem]:
    if not resource.display_name:
        yield "display_name", "is required"
    elif len(resource.display_name) > MAX_DISPLAY_NAME:
        yield "display_name", f"has {len(resource.display_name)} characters; the limit is {MAX_DISPLAY_NAME}"


def _labels(resource: Pb, _location: str) -> Iterator[Problem]:
    valid = len(resource.labels) <= MAX_LABELS and all(
        _LABEL_START.match(key) and _is_label(key) and _is_label(v) for key, v in resource.labels.items()
    )
    if not valid:
        yield "labels", LABEL_RULES


def _is_label(text: str) -> bool:
    """Return whether a label's key or value may be this text. International letters are valid; Lu and Lt are
    the categories of capitals."""
    kinds = (unicodedata.category(char) for char in text if char not in "_-")
    return (
        len(text) < MAX_LABEL_LENGTH
        and len(text.encode()) < MAX_LABEL_BYTES
        and all(kind[0] in "LMN" and kind not in {"Lu", "Lt"} for kind in kinds)
    )


def _encryption(resource: Pb, location: str) -> Iterator[Problem]:
    key = resource.encryption_spec.kms_key_name
    if not resource.HasField("encryption_spec"):
        return
    match = _KEY.fullmatch(key)
    path = "encryption_spec.kms_key_name"
    if match is None:
        yield path, f"{key!r} must have the form projects/P/locations/L/keyRings/R/cryptoKeys/K"
    elif match["location"] != location:
        yield path, f"the key is in {match['location']}; it must be in the same region, {location}"


def _pools(spec: Pb) -> Iterator[Problem]:
    pools = spec.worker_pool_specs
    if not pools:
        yield "worker_pool_specs", "is required; its first element is the primary replica"
        return
    if len(pools) > MAX_POOLS:
        yield (
            "worker_pool_specs",
            f"has {len(pools)} pools; the maximum is {MAX_POOLS}: primary, workers, parameter servers "
            "or reducers, and evaluators",
        )
    if _empty(pools[0]):
        yield "worker_pool_specs[0]", "the primary pool can't be skipped"
    elif pools[0].replica_count != 1:
        yield (
            "worker_pool_specs[0].replica_count",
            f"must be 1, not {pools[0].replica_count}; put further workers into worker_pool_specs[1]",
        )
    for position, pool in enumerate(pools[1:MAX_POOLS], start=1):
        if not _empty(pool) and pool.replica_count < 1:
            yield (
                f"worker_pool_specs[{position}].replica_count",
                (
                    f"must be at least 1, not {pool.replica_count}; write an empty pool {{}} to skip this "
                    "position"
                ),
            )


def _network(spec: Pb) -> Iterator[Problem]:
    if not spec.network:
        return
    match = _NETWORK.fullmatch(spec.network)
    if match is None:
        yield "network", f"{spec.network!r} must have the form projects/NUMBER/global/networks/NAME"
    elif not match["project"].isdecimal():
        yield "network", f"names the project {match['project']!r} by its id; use the project's number"


def _ip_ranges(spec: Pb) -> Iterator[Problem]:
    for index, name in enumerate(spec.reserved_ip_ranges):
        if not _RANGE.fullmatch(name):
            yield (
                f"reserved_ip_ranges[{index}]",
                f"{name!r} must be the name of an allocated range such as vertex-ai-ip-range, not a CIDR",
            )


def _psc(spec: Pb) -> Iterator[Problem]:
    config = spec.psc_interface_config
    if not spec.HasField("psc_interface_config"):
        return
    name = config.network_attachment
    if name and not _ATTACHMENT.fullmatch(name) and not _RANGE.fullmatch(name):
        yield (
            "psc_interface_config.network_attachment",
            f"{name!r} must be a name or have the form projects/P/regions/R/networkAttachments/NAME",
        )
    for index, peering in enumerate(config.dns_peering_configs):
        if not peering.domain.endswith("."):
            yield (
                f"psc_interface_config.dns_peering_configs[{index}].domain",
                f"{peering.domain!r} must end with a dot",
            )


def _tensorboard(spec: Pb) -> Iterator[Problem]:
    if not spec.tensorboard:
        return
    if not _TENSORBOARD.fullmatch(spec.tensorboard):
        yield "tensorboard", f"{spec.tensorboard!r} must have the form projects/P/locations/L/tensorboards/ID"
    if not spec.service_account:
        yield "service_account", "is required together with tensorboard"


def _service_account(spec: Pb) -> Iterator[Problem]:
    if spec.service_account and not _ACCOUNT.fullmatch(spec.service_account):
        yield "service_account", f"{spec.service_account!r} must be an account's e-mail address"


def _output(spec: Pb) -> Iterator[Problem]:
    prefix = spec.base_output_directory.output_uri_prefix
    if spec.HasField("base_output_directory") and (problem := uri_problem(prefix.rstrip("/"))):
        yield "base_output_directory.output_uri_prefix", problem


def _experiment(spec: Pb) -> Iterator[Problem]:
    for field in ("experiment", "experiment_run"):
        name = getattr(spec, field)
        if name and not _CONTEXT.fullmatch(name):
            yield field, f"{name!r} must have the form projects/P/locations/L/metadataStores/S/contexts/C"


_RESOURCE_RULES: tuple[Callable[[Pb, str], Iterator[Problem]], ...] = (_display_name, _labels, _encryption)
_SPEC_RULES: tuple[Callable[[Pb], Iterator[Problem]], ...] = (
    _pools,
    _network,
    _ip_ranges,
    _psc,
    _tensorboard,
    _service_account,
    _output,
    _experiment,
)
