"""The fields of a custom job in REST format, as data (docs/facts/vertex.md 1.1 to 1.9)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class FieldType:
    """Type of a field: "string", "integer", "double", "boolean", "duration", "enum", "message", "map",
    "value".

    `bits` is the width of an integer. For an enum `numbers` has every name of the protocol, `choices` the
    names for users, without the unspecified one. `type` is a message's name.
    """

    name: str
    repeated: bool = False
    choices: tuple[str, ...] = ()
    fields: Mapping[str, FieldType] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    bits: int = 64
    type: str = ""


STRING = FieldType("string")
STRINGS = FieldType("string", repeated=True)
INTEGER = FieldType("integer")
SMALL = FieldType("integer", bits=32)
DOUBLE = FieldType("double")
DOUBLES = FieldType("double", repeated=True)
BOOLEAN = FieldType("boolean")
DURATION = FieldType("duration")
LABELS = FieldType("map")
VALUE = FieldType("value")
"""Any JSON value: a google.protobuf.Value."""


def enum(**numbers: int) -> FieldType:
    """Build an enum with the protocol's numbers by name."""
    choices = tuple(name for name in numbers if not name.endswith("_UNSPECIFIED"))
    return FieldType("enum", choices=choices, numbers=numbers)


def message(type: str, repeated: bool = False, **fields: FieldType) -> FieldType:
    """Build a message of this type with these fields."""
    return FieldType("message", repeated, fields=fields, type=type)


ACCELERATOR = enum(
    ACCELERATOR_TYPE_UNSPECIFIED=0,
    NVIDIA_TESLA_K80=1,
    NVIDIA_TESLA_P100=2,
    NVIDIA_TESLA_V100=3,
    NVIDIA_TESLA_P4=4,
    NVIDIA_TESLA_T4=5,
    TPU_V2=6,
    TPU_V3=7,
    NVIDIA_TESLA_A100=8,
    NVIDIA_A100_80GB=9,
    TPU_V4_POD=10,
    NVIDIA_L4=11,
    TPU_V5_LITEPOD=12,
    NVIDIA_H100_80GB=13,
    NVIDIA_H100_MEGA_80GB=14,
    NVIDIA_H200_141GB=15,
    NVIDIA_B200=16,
    NVIDIA_GB200=17,
    NVIDIA_RTX_PRO_6000=18,
)

ENV = message("EnvVar", True, name=STRING, value=STRING)

MACHINE = message(
    "MachineSpec",
    machineType=STRING,
    acceleratorType=ACCELERATOR,
    acceleratorCount=SMALL,
    tpuTopology=STRING,
    gpuPartitionSize=STRING,
    reservationAffinity=message(
        "ReservationAffinity",
        reservationAffinityType=enum(
            TYPE_UNSPECIFIED=0, NO_RESERVATION=1, ANY_RESERVATION=2, SPECIFIC_RESERVATION=3
        ),
        key=STRING,
        values=STRINGS,
    ),
)

WORKER_POOL = message(
    "WorkerPoolSpec",
    True,
    machineSpec=MACHINE,
    replicaCount=INTEGER,
    nfsMounts=message("NfsMount", True, server=STRING, path=STRING, mountPoint=STRING),
    lustreMounts=message(
        "LustreMount", True, instanceIp=STRING, volumeHandle=STRING, filesystem=STRING, mountPoint=STRING
    ),
    diskSpec=message("DiskSpec", bootDiskType=STRING, bootDiskSizeGb=SMALL),
    containerSpec=message("ContainerSpec", imageUri=STRING, command=STRINGS, args=STRINGS, env=ENV),
    pythonPackageSpec=message(
        "PythonPackageSpec",
        executorImageUri=STRING,
        packageUris=STRINGS,
        pythonModule=STRING,
        args=STRINGS,
        env=ENV,
    ),
)

JOB_SPEC = message(
    "CustomJobSpec",
    persistentResourceId=STRING,
    workerPoolSpecs=WORKER_POOL,
    scheduling=message(
        "Scheduling",
        timeout=DURATION,
        restartJobOnWorkerRestart=BOOLEAN,
        strategy=enum(STRATEGY_UNSPECIFIED=0, STANDARD=3, SPOT=4, FLEX_START=6, ON_DEMAND=1, LOW_COST=2),
        disableRetries=BOOLEAN,
        maxWaitDuration=DURATION,
    ),
    serviceAccount=STRING,
    network=STRING,
    reservedIpRanges=STRINGS,
    pscInterfaceConfig=message(
        "PscInterfaceConfig",
        networkAttachment=STRING,
        dnsPeeringConfigs=message(
            "DnsPeeringConfig", True, domain=STRING, targetProject=STRING, targetNetwork=STRING
        ),
    ),
    baseOutputDirectory=message("GcsDestination", outputUriPrefix=STRING),
    protectedArtifactLocationId=STRING,
    tensorboard=STRING,
    enableWebAccess=BOOLEAN,
    enableDashboardAccess=BOOLEAN,
    experiment=STRING,
    experimentRun=STRING,
    models=STRINGS,
)

PACKAGE = FieldType(
    "message",
    fields={
        "path": STRING,
        "script": STRING,
        "module": STRING,
        "requirements": STRING,
        "executorImage": STRING,
        "exclude": STRINGS,
        "stagingBucket": STRING,
        "image": STRING,
        "build": STRING,
    },
)
"""A folder that a launch packs (`tui.domain.vertex.packaging`). The folder is not part of the request."""

PROGRESS = FieldType("message", fields={"pattern": STRING})
"""The pattern of progress in the job's log lines (`tui.domain.progress.pattern`), sent in the environment."""

TRAINING_PIPELINE_BODY = message("TrainingPipeline", trainingTaskInputs=JOB_SPEC)
"""A profile's fields of a training pipeline, for its custom job; the header has the other fields."""

OUTPUT_ONLY = {
    "name": "the service assigns its id",
    "state": "the service sets a job's state",
    "createTime": "the service sets it",
    "startTime": "the service sets it",
    "endTime": "the service sets it",
    "updateTime": "the service sets it",
    "error": "the service sets the error of a failed job",
    "webAccessUris": "they exist while a job runs; enableWebAccess requests them",
    "satisfiesPzs": "the service reports it",
    "satisfiesPzi": "the service reports it",
}
"""Fields of a CustomJob that only the service fills (docs/facts/vertex.md 1.1), each with the reason."""

HEADER: Mapping[str, FieldType] = {
    "displayName": STRING,
    "description": STRING,
    "region": STRING,
    "labels": LABELS,
    "encryptionSpec": message("EncryptionSpec", kmsKeyName=STRING),
    "parameters": LABELS,
    "package": PACKAGE,
    "progress": PROGRESS,
    "jobSpec": JOB_SPEC,
}
"""Top level of a custom job's profile; `parameters` has a separate format (`tui.domain.profile`)."""


def _names(fields: Mapping[str, FieldType]) -> set[str]:
    return {name for key, kind in fields.items() for name in (key, *_names(kind.fields))}


NAMES = frozenset(_names(HEADER))
"""Names of all fields at any depth."""

RESOURCE: Mapping[str, FieldType] = {
    name: HEADER[name] for name in ("displayName", "labels", "encryptionSpec")
}
"""Header fields that are sent unchanged, with any body."""


def stands_alone(names: Collection[str]) -> bool:
    """Return whether a file with these fields (camelCase) at its top level is itself a job's spec."""
    return "jobSpec" not in names and any(name in JOB_SPEC.fields for name in names)
