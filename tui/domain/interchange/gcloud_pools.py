"""The errors that gcloud reports in `--worker-pool-spec` before it sends a request. Source:
`command_lib/ai/custom_jobs/validation.py` and `flags.py` of gcloud 578.0.0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tui.domain.spec.field_table import ACCELERATOR
from tui.domain.vertex.field_check import suggestion

_OF_A_PACKAGE = ("script", "requirements", "extra-packages", "extra-dirs")
_SOFTWARE = ("executor-image-uri", "container-image-uri", "python-module", *_OF_A_PACKAGE)

Pools = Sequence[Mapping[str, str]]
Refusal = tuple[int, str, str]
"""The index of a pool, the error, and its fix."""


def refusals(pools: Pools) -> Iterator[Refusal]:
    """Yield gcloud's errors in the pools of a command line; an empty mapping stands for a skipped pool."""
    if pools and not pools[0]:
        yield 0, "the first pool is empty.", "Describe the primary replica in the first --worker-pool-spec."
        return
    packaged = bool(pools) and "local-package-path" in pools[0]
    for i, pool in enumerate(pools):
        if pool:
            errors = [*_hardware(pool), *(_packaged(pool, i) if packaged else _software(pool, i))]
            yield from ((i, message, fix) for message, fix in errors)


def _hardware(pool: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if "machine-type" not in pool:
        yield (
            "the pool has no machine-type.",
            "Add machine-type=NAME, for example machine-type=n1-standard-4.",
        )
    kind = pool.get("accelerator-type", "")
    if "accelerator-count" in pool and "accelerator-type" not in pool:
        yield "accelerator-count needs accelerator-type.", "Add accelerator-type=TYPE."
    elif kind and "$" not in kind and kind not in ACCELERATOR.choices:
        upper = kind.replace("-", "_").upper()
        fix = f"Write {upper}." if upper in ACCELERATOR.choices else suggestion(upper, ACCELERATOR.choices)
        yield f"{kind!r} is not an accelerator-type.", fix


def _packaged(pool: Mapping[str, str], number: int) -> Iterator[tuple[str, str]]:
    """Yield errors in the pools of a command whose first pool names a folder to package."""
    if number:
        keys = [key for key in _SOFTWARE if key in pool]
        if keys:
            message = f"{', '.join(keys)}: the package of the first pool runs in every pool."
            yield message, "Remove the keys here."
        return
    if "executor-image-uri" not in pool:
        yield "local-package-path needs executor-image-uri.", "Add executor-image-uri=IMAGE."
    if ("python-module" in pool) == ("script" in pool):
        yield "local-package-path needs one of python-module and script.", "Set exactly one of the two keys."


def _software(pool: Mapping[str, str], number: int) -> Iterator[tuple[str, str]]:
    """Yield errors in the pools of a command without a package."""
    if number and "local-package-path" in pool:
        yield "local-package-path belongs in the first pool.", "Move the key there."
        return
    executor, container = "executor-image-uri" in pool, "container-image-uri" in pool
    if executor == container:
        yield (
            "the pool needs one of container-image-uri and executor-image-uri.",
            "Set exactly one of the two keys.",
        )
    elif container and "python-module" in pool:
        yield "python-module can't be combined with container-image-uri.", "Remove one of the two keys."
    elif executor and "python-module" not in pool:
        yield "executor-image-uri needs python-module.", "Add python-module=MODULE."
    only = [key for key in _OF_A_PACKAGE if key in pool]
    if only:
        yield f"{', '.join(only)}: only with local-package-path in the first pool.", "Remove it."
