"""ModelService: upload, get, list, update and delete models and their versions.

Vertex does not document the following behaviour, so the emulator chooses it: a new version retains the
display name, the description and the labels of its model, and adds its own labels; an upload to the id of an
existing model is ALREADY_EXISTS; a version id is never reused while its model exists.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from google.cloud.aiplatform_v1.types import model_service as types
from google.cloud.aiplatform_v1.types import operation as operation_types
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2

from tui.emulator.experiments.kinds import MODEL, MODELS, VERSION
from tui.emulator.experiments.resource_service import ResourceServer, copy_field, named_fields, touched
from tui.emulator.experiments.store import ResourceStore
from tui.emulator.messages import Pb, copied, current_time
from tui.emulator.rpc.methods import Method, failed_precondition, invalid, methods_of, refuse
from tui.emulator.serving.registry import DEFAULT, SHARED, ModelRegistry
from tui.emulator.serving.validate import alias_problems, model_problems
from tui.emulator.training_pipelines.inputs import read_custom_task
from tui.emulator.vertex.operations import Operations
from tui.emulator.vertex.resource_requests import creation_parent
from tui.emulator.vertex.validate_pools import Problem

_OUTPUTS = (
    "version_id", "version_create_time", "version_update_time", "supported_deployment_resources_types",
    "supported_input_storage_formats", "supported_output_storage_formats", "supported_export_formats",
    "deployed_models", "training_pipeline", "original_model_info", "metadata_artifact",
)  # fmt: skip
"""Fields that a client can't set in an upload."""
_PIPELINE_FIELD = re.compile(r"^model(?=[.\[]|$)")
_OF_MODEL = frozenset({"display_name", "description", "labels"})
_OF_VERSION = frozenset({"version_description", "labels"})
_Delete = operation_types.DeleteOperationMetadata.pb()
_Upload = types.UploadModelOperationMetadata.pb()
_Uploaded = types.UploadModelResponse.pb()
_Versions = types.ListModelVersionsResponse.pb()


class ModelService(ResourceServer):
    """RPC handlers of models."""

    def __init__(self, store: ResourceStore, operations: Operations, registry: ModelRegistry) -> None:
        super().__init__(MODEL, store, operations)
        self.registry = registry
        self._lock = asyncio.Lock()

    def methods(self) -> list[Method]:
        """Return the RPCs of this service."""
        operation = operations_pb2.Operation
        return [
            *super().methods(),
            *methods_of(
                MODELS,
                types,
                ("UploadModel", self.upload, operation),
                ("ListModelVersions", self.list_versions),
                ("DeleteModelVersion", self.delete_version, operation),
                ("MergeVersionAliases", self.merge_aliases, MODEL.message),
            ),
        ]

    async def upload(self, request: Pb) -> Pb:
        """Store a model or a version of it. The operation is done immediately, because nothing is copied."""
        refuse(_upload_problems(request))
        async with self._lock:
            stored, version, others = self._uploaded(request)
            reply = _Uploaded(model=stored.name, model_version_id=version.version_id)
            change = self._store.change([stored, version, *others])
            return await self._operations.make(stored.name, _Upload(), reply, change)

    def _uploaded(self, request: Pb) -> tuple[Pb, Pb, list[Pb]]:
        """Return the model, the version, and the versions that lose an alias, to be stored. Raises
        WireError."""
        model = self._parent(request) if request.parent_model else self._new_model(request)
        version, others = self._new_version(model, request.model)
        stored = touched(copied(model))
        stored.version_id = version.version_id
        return stored, version, others

    def check_trained(self, parent: str, pipeline: Pb) -> None:
        """Refuse a training pipeline whose model could not be uploaded. Raises WireError."""
        if not pipeline.HasField("model_to_upload"):
            fields = [name for name in ("model_id", "parent_model") if getattr(pipeline, name)]
            if fields:
                raise invalid((f"training_pipeline.{fields[0]}", "needs model_to_upload"))
            return
        request = _upload_of(parent, pipeline)
        problems = [
            (f"training_pipeline.{_PIPELINE_FIELD.sub('model_to_upload', path)}", why)
            for path, why in _upload_problems(request)
        ]
        refuse(problems)
        if request.parent_model:
            self._parent(request)
        else:
            self._new_model(request)

    async def upload_trained(self, parent: str, pipeline: Pb) -> tuple[str, str]:
        """Store the model of a succeeded training pipeline below `parent`; return its name and version.

        The model is stored once, even if the emulator ended before the pipeline recorded it. Raises
        WireError.
        """
        async with self._lock:
            for version in self._store.all(VERSION):
                if version.training_pipeline == pipeline.name:
                    return version.name.rsplit("/", 2)[0], version.version_id
            request = _upload_of(parent, pipeline)
            stored, version, others = self._uploaded(request)
            version.training_pipeline = pipeline.name
            await self._store.put(stored, version, *others)
            return stored.name, version.version_id

    def _parent(self, request: Pb) -> Pb:
        model = self.registry.model(request.parent_model, "parent_model")
        if not model.name.startswith(f"{request.parent}/"):
            raise invalid(("parent_model", f"{model.name} must be in {request.parent}"))
        return model

    def _new_model(self, request: Pb) -> Pb:
        requested = MODEL.message()
        for field in ("display_name", "description", "encryption_spec", "labels"):
            if field == "encryption_spec" and not request.model.HasField(field):
                continue
            copy_field(request.model, requested, field)
        return self.new(request.parent, requested, request.model_id)

    def _new_version(self, model: Pb, requested: Pb) -> tuple[Pb, list[Pb]]:
        """Return a version to be stored, and the other versions that lose an alias to it."""
        versions = self.registry.versions(model)
        version = copied(requested)
        for field in (*SHARED, *_OUTPUTS):
            version.ClearField(field)
        if not versions:
            # The first version's labels are stored with the model.
            version.ClearField("labels")
        # The stored model keeps the id of the last version, which may be deleted.
        version.version_id = str(int(model.version_id or 0) + 1)
        version.name = f"{model.name}/{VERSION.collection}/{version.version_id}"
        now = current_time()
        for field in ("create_time", "version_create_time", "version_update_time"):
            getattr(version, field).CopyFrom(now)
        version.ClearField("version_aliases")
        aliases = [*requested.version_aliases, *([] if versions else [DEFAULT])]
        return version, _move_aliases(version, aliases, versions)

    async def get(self, request: Pb) -> Pb:
        return self.registry.shown(self.registry.version(request.name))

    def rows(self, parent: str) -> Sequence[Pb]:
        """Return the default version of each model."""
        models = self._store.below(parent, MODEL)
        return [self.registry.shown(self.registry.version(model.name)) for model in models]

    async def list_versions(self, request: Pb) -> Pb:
        model = self.registry.model(request.name)
        rows = [self.registry.shown(version) for version in self.registry.versions(model)]
        return await self.page(rows, request, model.name, _Versions())

    async def update(self, request: Pb) -> Pb:
        """Change a model, or a version if its name has @VERSION."""
        name, version_id = self.registry.split_name(request.model.name, "model.name")
        fields = list(named_fields(request.update_mask.paths, request.model))
        versioned = version_id not in {"", "-"}
        allowed = _OF_VERSION if versioned else _OF_MODEL
        wrong = [field for field in fields if field not in allowed]
        if wrong:
            noun = "a version" if versioned else "a model"
            raise failed_precondition(
                request.model.name,
                f"update_mask: {', '.join(wrong)} can't be changed in {noun}; {', '.join(sorted(allowed))} "
                "can. The name of a version ends with @VERSION.",
            )
        async with self._lock:
            model = self.registry.model(name)
            target = self.registry.version(request.model.name) if versioned else model
            changed = copied(target)
            for field in fields:
                copy_field(request.model, changed, field)
            if versioned:
                changed.version_update_time.CopyFrom(current_time())
                await self._store.put(changed, touched(copied(model)))
            else:
                await self._store.put(touched(changed))
        shown = request.model.name if versioned else name
        return self.registry.shown(self.registry.version(shown))

    async def delete(self, request: Pb) -> operations_pb2.Operation:
        async with self._lock:
            model = self.registry.model(request.name)
            self._not_deployed(model.name, "")
            return await self._deleted(model.name, [model.name])

    async def delete_version(self, request: Pb) -> operations_pb2.Operation:
        async with self._lock:
            model = self.registry.model(request.name)
            if not self.registry.split_name(request.name)[1]:
                raise invalid(("name", f"{request.name!r} must name a version: …/models/MODEL@VERSION"))
            version = self.registry.version(request.name)
            if len(self.registry.versions(model)) == 1:
                raise failed_precondition(
                    request.name, f"{request.name} is the only version of its model; delete the model."
                )
            if DEFAULT in version.version_aliases:
                raise failed_precondition(
                    request.name,
                    f"{request.name} is the default version. Move the alias {DEFAULT} to another first.",
                )
            self._not_deployed(model.name, version.version_id)
            return await self._deleted(model.name, [version.name])

    async def merge_aliases(self, request: Pb) -> Pb:
        """Add aliases to a version, and remove aliases with a leading `-`."""
        aliases = list(request.version_aliases)
        problems = list(alias_problems(aliases, "version_aliases"))
        if not aliases:
            problems.append(("version_aliases", "is required"))
        if f"-{DEFAULT}" in aliases:
            problems.append(("version_aliases", f"-{DEFAULT}: a model must have a version with this alias"))
        refuse(problems)
        async with self._lock:
            model = self.registry.model(request.name)
            version = copied(self.registry.version(request.name))
            others = [other for other in self.registry.versions(model) if other.name != version.name]
            changed = _move_aliases(version, aliases, others)
            version.version_update_time.CopyFrom(current_time())
            await self._store.put(version, *changed)
        return self.registry.shown(version)

    def _not_deployed(self, model: str, version: str) -> None:
        where = self.registry.uses(model, version)
        if where:
            raise failed_precondition(
                model, f"{model} is deployed to {', '.join(where)}; undeploy it there, then delete it."
            )

    async def _deleted(self, subject: str, names: list[str]) -> operations_pb2.Operation:
        change = self._store.change(delete=names)
        return await self._operations.make(subject, _Delete(), empty_pb2.Empty(), change)


def _upload_problems(request: Pb) -> list[Problem]:
    _, location = creation_parent(request.parent)
    problems = model_problems(request.model, location)
    problems += alias_problems(list(request.model.version_aliases), "model.version_aliases")
    if request.parent_model and request.model_id:
        problems.append(("model_id", "must be empty with parent_model: the field names a new model"))
    return problems


def _upload_of(parent: str, pipeline: Pb) -> Pb:
    """Return the upload request of a pipeline's model. The model's artifacts are in AIP_MODEL_DIR."""
    request = types.UploadModelRequest.pb()(
        parent=parent,
        parent_model=pipeline.parent_model,
        model_id=pipeline.model_id,
        model=pipeline.model_to_upload,
    )
    base = read_custom_task(pipeline).base_output_directory.output_uri_prefix
    if base and not request.model.artifact_uri:
        request.model.artifact_uri = f"{base.rstrip('/')}/model"
    return request


def _move_aliases(version: Pb, aliases: Sequence[str], others: Sequence[Pb]) -> list[Pb]:
    """Give `version` the aliases. Return copies of the other versions that lose an alias.

    An alias that is both added and removed is left unchanged, as documented.
    """
    added = [alias for alias in aliases if not alias.startswith("-") and f"-{alias}" not in aliases]
    removed = {alias[1:] for alias in aliases if alias.startswith("-") and alias[1:] not in aliases}
    kept = [alias for alias in version.version_aliases if alias not in removed]
    version.ClearField("version_aliases")
    version.version_aliases.extend(dict.fromkeys([*kept, *added]))
    changed = []
    for other in others:
        left = [alias for alias in other.version_aliases if alias not in added]
        if len(left) < len(other.version_aliases):
            loser = copied(other)
            loser.ClearField("version_aliases")
            loser.version_aliases.extend(left)
            changed.append(loser)
    return changed
