"""Checks of the options in a request's query or body."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from starlette.requests import Request

from tui.domain.document.decoding import decode_json
from tui.emulator.kubernetes.api.request import is_true, read_body
from tui.emulator.kubernetes.errors import ApiError, BadRequest, FieldCause, Invalid
from tui.emulator.kubernetes.objects import Propagation
from tui.emulator.kubernetes.resources import JOBS, ApiResource, Obj

MOST_MANAGER = 128
_ALL = 'supported values: "All"'
_PROPAGATIONS: dict[str, Propagation] = {
    "Foreground": "Foreground", "Background": "Background", "Orphan": "Orphan"
}  # fmt: skip


def check_write(kind: str, query: Mapping[str, str], *, apply: bool | None = None) -> None:
    """Check the options of a create, update or patch; `kind` is e.g. CreateOptions.

    `apply` is true for an apply patch. Raises Invalid.
    """
    causes = list(_write_causes(query, apply))
    if causes:
        raise Invalid.of_options(kind, causes)


def _write_causes(query: Mapping[str, str], apply: bool | None) -> Iterator[FieldCause]:
    force, manager = is_true(query, "force"), query.get("fieldManager", "")
    if apply is False and force:
        yield FieldCause(
            "force", "Forbidden: may not be specified for non-apply patch", "FieldValueForbidden"
        )
    if apply and not manager:
        yield FieldCause("fieldManager", "Required value: is required for apply patch", "FieldValueRequired")
    if len(manager.encode()) > MOST_MANAGER:
        why = f"Too long: may not be more than {MOST_MANAGER} bytes"
        yield FieldCause("fieldManager", why, "FieldValueTooLong")
    elif not manager.isprintable():
        place, odd = next(
            (at, character) for at, character in enumerate(manager) if not character.isprintable()
        )
        why = f"invalid character U+{ord(odd):04X} (at position {place})"
        yield FieldCause("fieldManager", f"Invalid value: {json.dumps(manager)}: {why}")
    if query.get("dryRun", "") not in {"", "All"}:
        yield _dry_run([query["dryRun"]])
    mode = query.get("fieldValidation", "")
    if mode not in {"", "Strict", "Warn", "Ignore"}:
        supported = 'supported values: "", "Ignore", "Strict", "Warn"'
        yield FieldCause(
            "fieldValidation", f'Unsupported value: "{mode}": {supported}', "FieldValueNotSupported"
        )


def check_list(query: Mapping[str, str], *, watch: bool) -> None:
    """Check the options of a list or watch. Raises Invalid."""
    causes = list(_list_causes(query, watch))
    if causes:
        raise Invalid.of_options("ListOptions", causes)


def _list_causes(query: Mapping[str, str], watch: bool) -> Iterator[FieldCause]:
    match, initial = query.get("resourceVersionMatch", ""), query.get("sendInitialEvents")
    field = "resourceVersionMatch"

    def forbidden(why: str, at: str = field) -> FieldCause:
        return FieldCause(at, f"Forbidden: {why}", "FieldValueForbidden")

    def supported(values: str) -> FieldCause:
        message = f'Unsupported value: "{match}": supported values: {values}'
        return FieldCause(field, message, "FieldValueNotSupported")

    if watch and initial is not None:
        if match != "NotOlderThan":
            yield forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
            if match:
                yield supported('"NotOlderThan"')
        if query.get("continue"):
            yield forbidden("resourceVersionMatch is forbidden when continue is provided")
        return
    if watch and query.get("continue"):
        yield forbidden("resourceVersionMatch is forbidden when continue is provided")
    if initial is not None:
        yield forbidden("sendInitialEvents is forbidden for list", "sendInitialEvents")
    if not match:
        return
    if watch:
        yield forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
        return
    if not query.get("resourceVersion"):
        yield forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided")
    if query.get("continue"):
        yield forbidden("resourceVersionMatch is forbidden when continue is provided")
    if match not in {"Exact", "NotOlderThan"}:
        yield supported('"Exact", "NotOlderThan", ""')
    if match == "Exact" and query.get("resourceVersion") == "0":
        yield forbidden('resourceVersionMatch "exact" is forbidden for resourceVersion "0"')


async def delete_options(request: Request) -> Obj:
    """Return the options of a deletion, from the body or else the query. Raises ApiError."""
    body = await read_body(request)
    options = _from_body(body) if body else _from_query(request.query_params)
    causes = list(_delete_causes(options))
    if causes:
        raise Invalid.of_options("DeleteOptions", causes)
    if (options.get("gracePeriodSeconds") or 0) < 0:
        options["gracePeriodSeconds"] = 1
    return options


def propagation(options: Obj, resource: ApiResource) -> Propagation:
    """Return the propagation policy for the dependents of a deleted object."""
    policy = options.get("propagationPolicy")
    if policy in _PROPAGATIONS:
        return _PROPAGATIONS[policy]
    if "orphanDependents" in options:
        return "Orphan" if options["orphanDependents"] else "Background"
    # For old clients, the pods of a Job are orphaned by default.
    return "Orphan" if resource == JOBS else "Background"


def _from_body(body: bytes) -> Obj:
    # The API server does not report these errors as BadRequest.
    try:
        options = decode_json(body)
    except ValueError as error:
        raise ApiError(f"the options of the deletion are not JSON: {error}", reason="") from None
    if not isinstance(options, dict):
        raise BadRequest("the options of the deletion are not an object")
    kind = options.get("kind")
    if kind not in (None, "", "DeleteOptions"):
        raise ApiError(f"the body of a deletion must be of kind DeleteOptions, not {kind}", reason="")
    grace = options.get("gracePeriodSeconds")
    if grace is not None and (not isinstance(grace, int) or isinstance(grace, bool)):
        raise ApiError(f"gracePeriodSeconds must be of type integer, not {grace!r}", reason="")
    for name, kind in (("propagationPolicy", str), ("preconditions", dict), ("dryRun", list)):
        if not isinstance(options.get(name), kind | None):
            raise ApiError(f"{name} has the wrong type", reason="")
    return {key: value for key, value in options.items() if value is not None}


def _from_query(query: Mapping[str, str]) -> Obj:
    options: Obj = {}
    grace = query.get("gracePeriodSeconds", "")
    if grace:
        try:
            options["gracePeriodSeconds"] = int(grace)
        except ValueError:
            raise BadRequest(f'strconv.ParseInt: parsing "{grace}": invalid syntax') from None
    if query.get("propagationPolicy"):
        options["propagationPolicy"] = query["propagationPolicy"]
    if query.get("orphanDependents"):
        options["orphanDependents"] = query["orphanDependents"] == "true"
    if query.get("dryRun"):
        options["dryRun"] = [query["dryRun"]]
    return options


def _delete_causes(options: Obj) -> Iterator[FieldCause]:
    policy = options.get("propagationPolicy")
    if policy is not None and "orphanDependents" in options:
        why = "orphanDependents and deletionPropagation cannot be both set"
        yield FieldCause("propagationPolicy", f'Invalid value: "{policy}": {why}')
    elif policy is not None and policy not in _PROPAGATIONS:
        supported = ", ".join(f'"{value}"' for value in (*_PROPAGATIONS, "nil"))
        message = f'Unsupported value: "{policy}": supported values: {supported}'
        yield FieldCause("propagationPolicy", message, "FieldValueNotSupported")
    dry_run = options.get("dryRun") or []
    if dry_run not in ([], ["All"]):
        yield _dry_run(dry_run)


def _dry_run(values: list[str]) -> FieldCause:
    message = f"Unsupported value: {json.dumps(values)}: {_ALL}"
    return FieldCause("dryRun", message, "FieldValueNotSupported")
