"""Command lines that gcloud refuses are refused, each with what is wrong and what to write."""

from __future__ import annotations

import pytest

from tui.domain.interchange import gcloud
from tui.domain.profile import ProfileInvalid

POOL = "machine-type=n1-standard-4,container-image-uri=gcr.io/p/t:1"
EXECUTOR = "machine-type=n1-standard-4,executor-image-uri=gcr.io/p/t:1"
T4 = "accelerator-type=NVIDIA_TESLA_T4"
NAMED = "--display-name=j "


def read(flags: str) -> gcloud.Command:
    return gcloud.parse(f"gcloud ai custom-jobs create --region=us-central1 {flags}", "f", lambda _: {})


def pools(*given: str) -> str:
    return NAMED + " ".join(f"'--worker-pool-spec={pool}'" for pool in given)


REFUSED = [
    (pools(f"{POOL},accelerator-count=1"), "accelerator-count needs accelerator-type"),
    (pools(f"{POOL},accelerator-type=nvidia-tesla-t4"), "Write NVIDIA_TESLA_T4"),
    (pools(f"{POOL},accelerator-type=nvidia_l4"), "Write NVIDIA_L4"),
    (pools(f"{POOL},accelerator-type=ACCELERATOR_TYPE_UNSPECIFIED"), "is not an accelerator-type"),
    (pools("machine-type=n1-standard-4, container-image-uri=gcr.io/p/t"), "Remove the space"),
    (NAMED + f"--worker-pool-spec={POOL}, {T4}", "does not belong to a flag"),
    (f"--worker-pool-spec={POOL}", "--display-name=NAME"),
    (NAMED, "or --config"),
    (pools("container-image-uri=gcr.io/p/t"), "the pool has no machine-type"),
    (pools("", POOL), "the first pool is empty"),
    (pools("machine-type=n1-standard-4"), "one of container-image-uri and executor-image-uri"),
    (pools(f"{POOL},executor-image-uri=i"), "one of container-image-uri and executor-image-uri"),
    (pools(f"{POOL},python-module=m"), "can't be combined with container-image-uri"),
    (pools(EXECUTOR), "executor-image-uri needs python-module"),
    (pools(f"{POOL},script=train.py"), "only with local-package-path"),
    (pools(POOL, f"{EXECUTOR},script=t.py,local-package-path=."), "belongs in the first pool"),
    (pools("machine-type=n1-standard-4,script=t.py,local-package-path=."), "needs executor-image-uri"),
    (pools(f"{EXECUTOR},local-package-path=."), "one of python-module and script"),
    (pools(f"{EXECUTOR},local-package-path=.,script=t.py", POOL), "runs in every pool"),
    (pools(POOL) + " --args=--lr,1,--bs,1", "'1' occurs twice"),
    (pools(POOL) + " --command=a --command=b,a", "'a' occurs twice"),
]  # fmt: skip


@pytest.mark.parametrize(("flags", "said"), REFUSED, ids=range(len(REFUSED)))
def test_what_gcloud_refuses_is_refused(flags: str, said: str) -> None:
    with pytest.raises(ProfileInvalid) as caught:
        read(flags)
    assert any(said in f"{p.message} {p.fix}" for p in caught.value.problems), caught.value.problems
    assert all(p.line == 1 for p in caught.value.problems)


def test_the_last_of_repeated_package_uris_counts() -> None:
    command = read(
        pools(f"{EXECUTOR},python-module=m")
        + " --python-package-uris=gs://b/a,gs://b/a --python-package-uris=gs://b/c"
    )
    (pool,) = command.job["jobSpec"]["workerPoolSpecs"]
    assert pool["pythonPackageSpec"]["packageUris"] == ["gs://b/c"]


def test_a_delimiter_at_the_end_begins_no_part() -> None:
    command = read(pools(f"{POOL},{T4},") + " --args=a,b,")
    (pool,) = command.job["jobSpec"]["workerPoolSpecs"]
    assert pool["containerSpec"]["args"] == ["a", "b"]
    assert pool["machineSpec"]["acceleratorCount"] == 1


def test_a_skipped_pool_and_one_with_executor_and_module_are_taken() -> None:
    command = read(pools(POOL, "", f"{EXECUTOR},python-module=m"))
    assert len(command.job["jobSpec"]["workerPoolSpecs"]) == 3
