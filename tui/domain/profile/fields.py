"""The fields of a custom job in REST form, as data (vertex facts 1.1 to 1.9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tui.domain.catalog import ACCELERATOR_TYPES


@dataclass(frozen=True, slots=True)
class Kind:
    """Type of a field: "string", "integer", "boolean", "duration", "enum", "message", "map"."""

    name: str
    repeated: bool = False
    choices: tuple[str, ...] = ()
    fields: Mapping[str, Kind] = field(default_factory=dict)


STRING = Kind("string")
STRINGS = Kind("string", repeated=True)
INTEGER = Kind("integer")
BOOLEAN = Kind("boolean")
DURATION = Kind("duration")
LABELS = Kind("map")


def _enum(*choices: str) -> Kind:
    return Kind("enum", choices=choices)


def _message(repeated: bool = False, **fields: Kind) -> Kind:
    return Kind("message", repeated, fields=fields)


ENV = _message(True, name=STRING, value=STRING)

MACHINE = _message(
    machineType=STRING,
    acceleratorType=_enum(*ACCELERATOR_TYPES),
    acceleratorCount=INTEGER,
    tpuTopology=STRING,
    gpuPartitionSize=STRING,
    reservationAffinity=_message(
        reservationAffinityType=_enum("NO_RESERVATION", "ANY_RESERVATION", "SPECIFIC_RESERVATION"),
        key=STRING,
        values=STRINGS,
    ),
)

WORKER_POOL = _message(
    True,
    machineSpec=MACHINE,
    replicaCount=INTEGER,
    nfsMounts=_message(True, server=STRING, path=STRING, mountPoint=STRING),
    lustreMounts=_message(True, instanceIp=STRING, volumeHandle=STRING, filesystem=STRING, mountPoint=STRING),
    diskSpec=_message(bootDiskType=STRING, bootDiskSizeGb=INTEGER),
    containerSpec=_message(imageUri=STRING, command=STRINGS, args=STRINGS, env=ENV),
    pythonPackageSpec=_message(
        executorImageUri=STRING, packageUris=STRINGS, pythonModule=STRING, args=STRINGS, env=ENV
    ),
)

JOB_SPEC = _message(
    persistentResourceId=STRING,
    workerPoolSpecs=WORKER_POOL,
    scheduling=_message(
        timeout=DURATION,
        restartJobOnWorkerRestart=BOOLEAN,
        strategy=_enum("STANDARD", "SPOT", "FLEX_START", "ON_DEMAND", "LOW_COST"),
        disableRetries=BOOLEAN,
        maxWaitDuration=DURATION,
    ),
    serviceAccount=STRING,
    network=STRING,
    reservedIpRanges=STRINGS,
    pscInterfaceConfig=_message(
        networkAttachment=STRING,
        dnsPeeringConfigs=_message(True, domain=STRING, targetProject=STRING, targetNetwork=STRING),
    ),
    baseOutputDirectory=_message(outputUriPrefix=STRING),
    protectedArtifactLocationId=STRING,
    tensorboard=STRING,
    enableWebAccess=BOOLEAN,
    enableDashboardAccess=BOOLEAN,
    experiment=STRING,
    experimentRun=STRING,
    models=STRINGS,
)

HEADER: Mapping[str, Kind] = {
    "displayName": STRING,
    "description": STRING,
    "region": STRING,
    "labels": LABELS,
    "encryptionSpec": _message(kmsKeyName=STRING),
    "parameters": LABELS,
    "jobSpec": JOB_SPEC,
}
"""Top level of a profile. `parameters` has a form of its own, see `tui.domain.profile.parameters`."""
