"""Every field of a custom job in the form's order: label, help, and whether it is shown while unset.

Types come from the field tables of `tui.domain.spec.field_table`; the facts in the helps are
docs/facts/vertex.md 1, 4, 7 and 8. A field that is only in those tables is still shown, with its REST name as
its label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tui.domain.pipeline.fields import PIPELINE_JOB_BODY
from tui.domain.spec.field_table import (
    BOOLEAN,
    DOUBLE,
    HEADER,
    INTEGER,
    JOB_SPEC,
    STRING,
    VALUE,
    WORKER_POOL,
    FieldType,
)
from tui.domain.spec.form_field import FormField, Names, Section
from tui.domain.spec.spec_format import BodyInput
from tui.domain.tuning.fields import METRIC_SPEC, PARAMETER_SPEC, TUNING_JOB_BODY

_ROOTS: Mapping[str, Mapping[str, FieldType]] = {
    "top": HEADER,
    "spec": JOB_SPEC.fields,
    "pool": WORKER_POOL.fields,
    "nfs": WORKER_POOL.fields["nfsMounts"].fields,
    "lustre": WORKER_POOL.fields["lustreMounts"].fields,
    "tuning": TUNING_JOB_BODY.fields,
    "pipeline": PIPELINE_JOB_BODY.fields,
    "metric": METRIC_SPEC.fields,
    "parameter": PARAMETER_SPEC.fields,
    "condition": PARAMETER_SPEC.fields["conditionalParameterSpecs"].fields,
    "dns": JOB_SPEC.fields["pscInterfaceConfig"].fields["dnsPeeringConfigs"].fields,
}


def kind_of(base: str, path: Names) -> FieldType:
    """Return the type of a field. Raises KeyError for an unknown field."""
    fields = _ROOTS[base]
    for name in path[:-1]:
        fields = fields[name].fields
    return fields[path[-1]]


def _fields(base: str, *rows: tuple[str, ...]) -> tuple[FormField, ...]:
    """Make fields from (path, label, help, text if unset); a `+` before the path marks a common field."""
    fields = []
    for dotted, label, words, *unset in rows:
        path = tuple(dotted.lstrip("+").split("."))
        fields.append(
            FormField(
                path, label, words, kind_of(base, path), dotted.startswith("+"), unset[0] if unset else ""
            )
        )
    return tuple(fields)


PROFILE = _fields(
    "top",
    ("+displayName", "name", "The job's display name, at most 128 bytes; it need not be unique.",
     "the file's name"),
    ("+description", "description", "One line about the profile, for the list; not sent."),
    ("+region", "region", "Region of the job; accelerators, prices and quotas differ by region.",
     "the context's first region"),
    ("+labels", "labels", "Keys and values for search and bills: lowercase letters, digits, _ and -."),
    ("encryptionSpec.kmsKeyName", "encryption key",
     "Your own Cloud KMS key (CMEK), in the job's region: "
     "projects/P/locations/REGION/keyRings/RING/cryptoKeys/KEY.", "Google-managed key"),
    ("progress.pattern", "progress",
     r"How a line reports training progress: a regular expression with groups like (?P<step>\d+), "
     r"(?P<total>\d+) and (?P<loss>[\d.]+).", "common trainers' lines are recognised"),
)  # fmt: skip

POOL = _fields(
    "pool",
    ("+replicaCount", "replicas", "Machines of this pool. The primary pool has exactly 1."),
    ("+machineSpec.acceleratorType", "accelerator",
     "GPU or TPU of each machine. Choices depend on the region.", "none"),
    ("+machineSpec.machineType", "machine", "Type of each machine. Choices support the accelerator."),
    ("+machineSpec.acceleratorCount", "count", "Accelerators per machine; the machine type determines "
                                               "the possible counts.", "0"),
    ("machineSpec.tpuTopology", "TPU topology", "Shape of a TPU v5e, v6e or 7x slice, e.g. 2x2 or "
                                                "4x4. The shape determines the number of machines."),
    ("+containerSpec.imageUri", "image", "Container image in Artifact Registry: "
     "REGION-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE:TAG."),
    ("containerSpec.command", "command", "Replaces the image's entry point.", "the image's own"),
    ("+containerSpec.args", "arguments", "Passed to the entry point; at most 100,000 characters in total."),
    ("+containerSpec.env", "environment", "Variables of every replica, at most 100. Secrets do "
     "not belong here: the job shows them."),
    ("+pythonPackageSpec.executorImageUri", "executor image", "Google's prebuilt image that installs and "
     "runs the package."),
    ("+pythonPackageSpec.packageUris", "packages", "gs:// paths of source distributions, at most 100."),
    ("+pythonPackageSpec.pythonModule", "module", "Module to run, e.g. trainer.task."),
    ("+pythonPackageSpec.args", "arguments", "Passed to the module; at most 100,000 characters in total."),
    ("+pythonPackageSpec.env", "environment", "Variables of every replica, at most 100. Secrets do "
     "not belong here: the job shows them."),
    ("diskSpec.bootDiskType", "boot disk", "pd-ssd, pd-standard or hyperdisk-balanced. Its content is lost "
     "with the job.", "pd-ssd; hyperdisk-balanced on a3-ultragpu and a4"),
    ("diskSpec.bootDiskSizeGb", "disk size", "GB of the boot disk, 100 to 64,000.", "100"),
    ("machineSpec.gpuPartitionSize", "GPU partition", "MIG partition of each GPU, e.g. 1g.10gb."),
    ("machineSpec.reservationAffinity.reservationAffinityType", "reservation",
     "Whether to use reserved machines; not with FLEX_START or a persistent resource.",
     "none is used"),
    ("machineSpec.reservationAffinity.key", "reservation key", "For SPECIFIC_RESERVATION: "
     "compute.googleapis.com/reservation-name."),
    ("machineSpec.reservationAffinity.values", "reservations", "Full names: "
     "projects/P/zones/ZONE/reservations/NAME."),
    ("nfsMounts", "NFS mounts", "Shares seen under /mnt/nfs/; the job needs a network for them."),
    ("lustreMounts", "Lustre mounts", "File systems seen under /mnt/lustre/."),
)  # fmt: skip

SCHEDULING = _fields(
    "spec",
    ("+scheduling.strategy", "strategy", "STANDARD keeps its machines; SPOT is far cheaper and can be "
     "preempted at any time; FLEX_START waits for capacity and keeps it for at most 7 days.", "STANDARD"),
    ("+scheduling.timeout", "timeout", "The job ends after this time: 48h, 2d or 172800s.", "7 days"),
    ("scheduling.maxWaitDuration", "wait at most", "How long a FLEX_START job may wait for machines; 0 means "
     "without limit.", "24 hours"),
    ("scheduling.restartJobOnWorkerRestart", "restart together", "When one replica restarts, all do: "
     "for frameworks whose members can't leave and rejoin.", "no"),
    ("scheduling.disableRetries", "no retries", "After an internal error of the service the job fails "
     "instead of being retried.", "the job is retried"),
)  # fmt: skip

OUTPUT = _fields(
    "spec",
    ("+baseOutputDirectory.outputUriPrefix", "output", "gs:// folder for models, checkpoints and "
     "TensorBoard logs; its bucket should be in the job's region."),
    ("tensorboard", "TensorBoard", "projects/P/locations/REGION/tensorboards/ID; needs a service account."),
    ("experiment", "experiment", "projects/P/locations/REGION/metadataStores/default/contexts/EXPERIMENT."),
    ("experimentRun", "experiment run", "The experiment's name followed by -RUN."),
    ("models", "models", "Models that some of Google's own jobs read; otherwise leave unset."),
)  # fmt: skip

NETWORK = _fields(
    "spec",
    ("network", "network", "VPC that is peered with the service, by project number: "
     "projects/NUMBER/global/networks/NAME.", "the public one"),
    ("reservedIpRanges", "reserved ranges", "Names (not CIDRs) of ranges allocated for the peering."),
    ("pscInterfaceConfig.networkAttachment", "network attachment", "Private Service Connect: "
     "projects/P/regions/REGION/networkAttachments/NAME."),
    ("pscInterfaceConfig.dnsPeeringConfigs", "DNS peerings", "Domains to resolve in your own VPC."),
)  # fmt: skip

ACCESS = _fields(
    "spec",
    ("+serviceAccount", "service account", ("Account that the job acts as; you need the permission "
                                           "actAs on the account."),
     "the custom code service agent"),
    ("enableWebAccess", "web shell", "A shell into each replica while it runs, in the browser; x opens it. "
     "The image needs bash.", "no"),
    ("enableDashboardAccess", "dashboard", "The primary container's dashboard in the browser.", "no"),
    ("persistentResourceId", "persistent resource", "Id of a persistent resource that the job runs on "
     "instead of machines of its own.", "machines of its own"),
    ("protectedArtifactLocationId", "artifact location", "Only if artifacts are kept in another region "
     "than the job's.", "the job's region"),
)  # fmt: skip

PACKAGE = _fields(
    "top",
    ("package.path", "folder", "Folder to package at launch, relative to this file."),
    ("package.script", "script", "Script in the folder to run, instead of a module."),
    ("package.module", "module", "Module in the folder to run, instead of a script."),
    (
        "package.requirements",
        "requirements",
        "File with the requirements to install.",
        "requirements.txt, if it exists",
    ),
    ("package.exclude", "left out", "Patterns of files to leave out, as in .gitignore."),
    ("package.executorImage", "executor image", "Image on which the package is installed or built."),
    (
        "package.stagingBucket",
        "staging",
        "gs:// folder to upload packages to.",
        "the output's bucket",
    ),
    ("package.image", "image", "Repository for a built image."),
    ("package.build", "build", "auto, sdist, docker, podman or cloud-build.", "auto"),
)

STUDY = _fields(
    "tuning",
    ("+maxTrialCount", "trials", "Total trials; each is a custom job of the pools below."),
    ("+parallelTrialCount", "at once", "Trials that run at the same time. The search learns from "
                                       "trials that have ended: fewer at once search better, and more "
                                       "at once finish sooner."),
    ("maxFailedTrialCount", "may fail", "The job fails if more trials than this number fail.",
     "the service decides"),
    ("+studySpec.metrics", "metrics", "Metric that the trials report, and its direction."),
    ("+studySpec.parameters", "search", "Search space; each parameter becomes a flag of the trials."),
    ("+studySpec.algorithm", "algorithm", "Algorithm that chooses the next values. GRID_SEARCH tries every "
     "combination, RANDOM_SEARCH draws.", "the service's own, which learns from the trials"),
    ("studySpec.measurementSelectionType", "result", "Which measurement of a trial counts: LAST_MEASUREMENT "
     "or BEST_MEASUREMENT.", "the last"),
    ("studySpec.medianAutomatedStoppingSpec.useElapsedDuration", "median stopping",
     "Stop a trial whose best is worse than the median of the others' averages: true compares by time, "
     "false by steps.", "trials run to their end"),
    ("studySpec.decayCurveStoppingSpec.useElapsedDuration", "curve stopping",
     "Stop a trial whose curve is unlikely to become the best: true compares by time, false by steps.",
     "trials run to their end"),
)  # fmt: skip

SECTIONS = (
    Section("profile", "Profile", "top", PROFILE),
    Section("scheduling", "Scheduling", "spec", SCHEDULING),
    Section("output", "Output", "spec", OUTPUT),
    Section("network", "Network", "spec", NETWORK),
    Section("access", "Access", "spec", ACCESS),
    Section("package", "Package", "top", PACKAGE),
)
"""Every group except the parameters, the pools and the study."""
STUDY_SECTION = Section("study", "Study", "tuning", STUDY)
"""Section of a tuning job; its fields are relative to the job's body."""

PIPELINE = _fields(
    "pipeline",
    ("+templatePath", "compiled file", "Output of `kfp dsl compile`, relative to the profile. A launch "
     "reads it and sends it.", "a template or a pipeline"),
    ("templateUri", "template", "Address of the compiled pipeline, for the service: gs://BUCKET/FILE, "
     "or https://REGION-kfp.pkg.dev/PROJECT/REPOSITORY/NAME/TAG."),
    ("pipelineSpec", "pipeline", "The compiled pipeline itself, in the profile. E edits it."),
    ("+runtimeConfig.gcsOutputDirectory", "root", "gs://BUCKET/FOLDER: the tasks store their outputs there.",
     "the pipeline's own default"),
    ("+runtimeConfig.failurePolicy", "after a failure", "FAIL_SLOW runs the tasks that do not depend on "
     "the failed task; FAIL_FAST starts no further task.", "PIPELINE_FAILURE_POLICY_FAIL_SLOW"),
    ("runtimeConfig.inputArtifacts", "input artifacts", "By name: {artifactId: ID} of an artifact of Vertex "
     "ML Metadata."),
    ("serviceAccount", "service account", "The account that the tasks run as.",
     "the default of Compute Engine"),
    ("network", "network", "Peered network: projects/NUMBER/global/networks/NAME."),
    ("reservedIpRanges", "IP ranges", "Names of reserved ranges of the peered network."),
    ("pscInterfaceConfig.networkAttachment", "attachment", "Network attachment of a PSC interface."),
    ("preflightValidations", "validations", "true: the service checks the pipeline's resources first.",
     "false"),
)  # fmt: skip
OWN_SECTIONS: Mapping[str, tuple[Section, ...]] = {
    "pipelineJob": (Section("pipeline", "Pipeline", "pipeline", PIPELINE),)
}
"""Sections that replace the pools for a body without a custom job; their fields are relative to that body."""
_TYPES = {"string": STRING, "integer": INTEGER, "number": DOUBLE, "boolean": BOOLEAN}


def inputs_section(inputs: Sequence[BodyInput]) -> Section:
    """Return the section of the body's values for a launch, with the pipeline's names."""
    fields = tuple(
        FormField(
            tuple(map(str, declared.path[1:])),
            declared.name,
            ". ".join(filter(None, (declared.type, declared.help))),
            _TYPES.get(declared.type, VALUE),
            common=True,
            unset=declared.default or ("required at a launch" if declared.required else "not set"),
        )
        for declared in inputs
    )
    return Section("inputs", "Pipeline parameters", "pipeline", fields)


_VALUES: tuple[tuple[str, ...], ...] = (
    ("+parameterId", "id", "Name of the trial's flag, without dashes: learning-rate."),
    ("doubleValueSpec.minValue", "from", "Smallest value of a real number."),
    ("doubleValueSpec.maxValue", "to", "Largest value of a real number."),
    ("integerValueSpec.minValue", "whole from", "Smallest value of an integer."),
    ("integerValueSpec.maxValue", "whole to", "Largest value of an integer."),
    ("categoricalValueSpec.values", "categories", "Words to choose from."),
    ("discreteValueSpec.values", "numbers", "Numbers to choose from, in increasing order."),
    ("scaleType", "scale", "UNIT_LOG_SCALE for a learning rate: as many trials between 0.001 and 0.01 as "
     "between 0.01 and 0.1.", "linear"),
    ("doubleValueSpec.defaultValue", "default", "Not allowed in tuning jobs."),
    ("integerValueSpec.defaultValue", "whole default", "Not allowed in tuning jobs."),
    ("categoricalValueSpec.defaultValue", "default word", "Not allowed in tuning jobs."),
    ("discreteValueSpec.defaultValue", "default number", "Not allowed in tuning jobs."),
    ("conditionalParameterSpecs", "depending", "Parameters that apply only with some values of this one."),
)  # fmt: skip

ELEMENTS: Mapping[str, tuple[FormField, ...]] = {
    "nfsMounts": _fields(
        "nfs",
        ("+server", "server", "The server's private IP address."),
        ("+path", "path", "Exported folder, from the root: /exports/data."),
        ("+mountPoint", "mount point", "Name under /mnt/nfs/."),
    ),
    "lustreMounts": _fields(
        "lustre",
        ("+instanceIp", "instance IP", "Address of the Lustre instance."),
        ("+volumeHandle", "volume", "Unique name of the instance."),
        ("+filesystem", "file system", "Name of the file system."),
        ("+mountPoint", "mount point", "Name under /mnt/lustre/."),
    ),
    "metrics": _fields(
        "metric",
        ("+metricId", "metric", "The tag that the trainer reports, e.g. loss."),
        ("+goal", "goal", "MAXIMIZE or MINIMIZE."),
    ),
    "parameters": _fields("parameter", *_VALUES),
    "conditionalParameterSpecs": _fields(
        "condition",
        (
            "parentCategoricalValues.values",
            "if a word",
            "Words of the parent parameter with which this parameter applies.",
        ),
        (
            "parentDiscreteValues.values",
            "if a number",
            "Numbers of the parent with which this parameter applies.",
        ),
        (
            "parentIntValues.values",
            "if an integer",
            "Integers of the parent with which this parameter applies.",
        ),
        *((f"parameterSpec.{path.lstrip('+')}", *rest) for path, *rest in _VALUES),
    ),
    "dnsPeeringConfigs": _fields(
        "dns",
        ("+domain", "domain", "Ends with a dot: corp.example.com."),
        ("+targetProject", "project", "Id of the project with the target network."),
        ("+targetNetwork", "network", "Name of the target network."),
    ),
}
"""Fields of one element of a list of messages, by the list's name."""

PARAMETER_HELP = {
    "default": "Value if a launch sets none; without a default a launch must set it.",
    "type": "string, integer, number or boolean.",
    "choices": "Allowed values.",
    "help": "Help text shown at launch.",
    "secret": "true: mask the value wherever it is shown.",
}
ROLES = ("primary", "workers", "parameter servers or reducers", "evaluators")
"""Role of a pool by its position (docs/facts/vertex.md 1.3)."""

CHOICE_HELP = {
    "STANDARD": "keeps its machines; standard quota",
    "SPOT": "much cheaper, can be preempted at any time; preemptible quota",
    "FLEX_START": "waits for capacity, at most 7 days; L4, A100, H100, H200, B200; preemptible quota",
    "ON_DEMAND": "deprecated: the same as STANDARD",
    "LOW_COST": "deprecated: the same as SPOT",
    "pd-ssd": "the default of most machines",
    "pd-standard": "slower, cheaper",
    "hyperdisk-balanced": "the default of a3-ultragpu and a4",
    "NO_RESERVATION": "no reservation is used, even if one fits",
    "ANY_RESERVATION": "any matching reservation; on demand in its zone if the reservation is full",
    "SPECIFIC_RESERVATION": "only the named reservations",
    "true": "yes",
    "false": "no",
}
