"""Inputs of a training pipeline's task as a CustomJobSpec.

The emulator runs one training task: custom code. The emulator has no managed datasets, so it refuses a
pipeline that names input data instead of dropping that part.
"""

from __future__ import annotations

from collections.abc import Iterator

from google.cloud.aiplatform_v1.types import custom_job as custom_job_types
from google.protobuf import json_format

from tui.domain.profile.vertex_formats import CUSTOM_TASK
from tui.domain.spec.custom_job_spec import text_arguments
from tui.emulator.messages import Pb
from tui.emulator.rpc.methods import invalid, refuse
from tui.emulator.vertex.validate_pools import Problem

CustomJobSpecPb = custom_job_types.CustomJobSpec.pb()


def read_custom_task(pipeline: Pb) -> Pb:
    """Return the CustomJobSpec of a requested training pipeline.

    Raises WireError: INVALID_ARGUMENT for another task, for inputs that are not a CustomJobSpec, and for
    features that the emulator lacks.
    """
    refuse(_unsupported(pipeline))
    try:
        inputs = text_arguments(json_format.MessageToDict(pipeline.training_task_inputs))
        if not isinstance(inputs, dict):
            raise json_format.ParseError("must be an object")
        return json_format.ParseDict(inputs, CustomJobSpecPb())
    except (json_format.ParseError, json_format.SerializeToJsonError) as error:
        raise invalid(
            (
                "training_pipeline.training_task_inputs",
                "Unable to parse `training_pipeline.training_task_inputs` into custom task `inputs` defined "
                f"in the file: {CUSTOM_TASK}: {' '.join(str(error).split())}",
            )
        ) from error


def _unsupported(pipeline: Pb) -> Iterator[Problem]:
    definition = pipeline.training_task_definition
    if not definition:
        yield (
            "training_pipeline.training_task_definition",
            f"is required: {CUSTOM_TASK} for custom code",
        )
    elif definition != CUSTOM_TASK:
        yield (
            "training_pipeline.training_task_definition",
            f"{definition!r} is not supported; the emulator runs only {CUSTOM_TASK}",
        )
    if pipeline.HasField("input_data_config"):
        yield "training_pipeline.input_data_config", "must be empty: the emulator has no managed datasets"
