"""Rules about regions: regions with training, and the accelerators of each region."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tui.domain.document.document_edit import Edit
from tui.domain.document.source import ProblemSeverity
from tui.domain.spec.custom_job_spec import machine_of, within
from tui.domain.spec.findings import Case, Finding, Path, Rule
from tui.domain.vertex import catalog
from tui.domain.vertex.sources import DOCS, GCLOUD_REGION, SPEC

_IN_REGION = re.compile(r"/(?:locations|regions)/(?P<region>[a-z0-9-]+)/")


def unknown(case: Case) -> Iterator[Finding]:
    trouble = catalog.unknown_region(case.region) if case.region and not case.local else None
    if trouble is not None:
        here = ("region",)
        edits = (Edit(here, trouble.meant),) if trouble.meant else ()
        yield Finding(here, trouble.message, trouble.fix, edits)


def accelerator(case: Case) -> Iterator[Finding]:
    if case.local or case.region not in catalog.regions():
        return
    here = catalog.region_accelerators().get(case.region, ())
    for path, pool in case.used:
        machine = machine_of(pool)
        name = catalog.documented_name(*machine)
        if name and name not in here:
            where = "machineType" if not machine[1] else "acceleratorType"
            elsewhere = [r for r, there in catalog.region_accelerators().items() if name in there]
            near = sorted(elsewhere, key=lambda r: (r.split("-")[0] != case.region.split("-")[0], r))
            more = f" or {len(near) - 4} more" if len(near) > 4 else ""
            yield Finding(
                (*path, "machineSpec", where),
                f"{case.region} has no {name} for training.",
                f"Use {', '.join(near[:4])}{more}."
                if near
                else "No region has this accelerator for training.",
            )


def elsewhere(case: Case) -> Iterator[Finding]:
    if not case.region or case.local:
        return
    spec = case.spec
    named: list[tuple[Path, str, object]] = [
        (("jobSpec", "tensorboard"), "the TensorBoard", spec.get("tensorboard")),
        (
            ("jobSpec", "pscInterfaceConfig", "networkAttachment"),
            "the network attachment",
            within(spec, "pscInterfaceConfig", "networkAttachment"),
        ),
        (("jobSpec", "experiment"), "the experiment", spec.get("experiment")),
    ]
    for path, noun, name in named:
        match = _IN_REGION.search(str(name or ""))
        if match and match["region"] != case.region:
            yield Finding(
                path,
                f"{noun} is in {match['region']}, but the job is in {case.region}; this may not work.",
                f"Use one in {case.region}, or run the job in {match['region']}.",
            )


RULES = (
    Rule("region.unknown", GCLOUD_REGION, unknown),
    Rule("region.accelerator", f"{DOCS}/machine-learning/general/locations", accelerator),
    Rule("region.elsewhere", SPEC, elsewhere, ProblemSeverity.WARNING),
)
