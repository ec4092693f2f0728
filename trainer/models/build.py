"""The workload that `--model` names."""

from __future__ import annotations

from trainer.config import Config
from trainer.errors import UsageError
from trainer.models.workload import Workload
from trainer.registry import MODELS, model_entry, resolve


def build_workload(config: Config) -> Workload:
    """Build the workload of `--model`. The function imports only the module of this model, because packages
    of other models may be missing.

    The weights may be on the meta device; the strategy then sets them.

    Raises:
        UsageError: if the name is unknown or a package is missing.
        DataError: if its data can't be read.
    """
    entry = model_entry(config.model.model)
    if entry is None:
        names = ", ".join(sorted(MODELS))
        raise UsageError(
            f"--model {config.model.model} is unknown; choose from {names}, or your own module:function"
        )
    try:
        workload: Workload = resolve(entry.target)(config)
    except ModuleNotFoundError as error:
        raise UsageError(f"--model {config.model.model} needs the package {error.name}") from error
    if len(workload.train) < config.data.batch:
        raise UsageError(f"--batch {config.data.batch} exceeds the {len(workload.train)} samples of the data")
    return workload
