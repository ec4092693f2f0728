"""Queries the permissions of the login (SelfSubjectAccessReview) before an operation is tried."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from tui.backends.errors import BackendError, PermissionDenied
from tui.backends.kubernetes.connection import ClusterConnection
from tui.backends.kubernetes.discovery import ApiType
from tui.backends.kubernetes.fields import mapping

REMEMBERED = 300.0
"""Seconds for which an answer is cached. A role that is granted in the meantime takes effect afterwards."""
AT_ONCE = 8
_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
Question = tuple[str, str, str, str]
"""Verb, group, resource with its subresource, and namespace ("" for all namespaces)."""


class Permissions:
    """Queries permissions and caches the answers."""

    def __init__(self, connection: ClusterConnection) -> None:
        self._connection = connection
        self._answers: dict[Question, tuple[float, bool, str]] = {}
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def allowed(self, verb: str, of: ApiType, namespace: str = "", subresource: str = "") -> bool:
        """Return whether the login may use this verb; the result is True if the cluster does not answer."""
        try:
            return (await self._ask(_question(verb, of, namespace, subresource)))[0]
        except BackendError:
            # The operation itself then fails with the reason.
            return True

    async def require(self, verb: str, of: ApiType, namespace: str, subresource: str = "") -> None:
        """Raise PermissionDenied with the reason if the login may not use this verb."""
        question = _question(verb, of, namespace, subresource)
        try:
            may, why = await self._ask(question)
        except BackendError:
            return
        if not may:
            resource = f"{of.plural}/{subresource}" if subresource else of.plural
            name = f"{resource}.{of.group}" if of.group else resource
            command = f"`kubectl auth can-i {verb} {name} -n {namespace}`"
            raise PermissionDenied(
                f"The login of {self._connection.login.cluster} may not {verb} {name} in the namespace "
                f"{namespace}{f': {why}' if why else ''}.",
                fix=f"Ask for a role that allows it; check with {command}.",
            )

    async def ask_ahead(self, questions: Iterable[tuple[str, ApiType, str]]) -> None:
        """Query these permissions in advance, so that `denied` has the answers."""
        await asyncio.gather(*(self.allowed(verb, of, namespace) for verb, of, namespace in questions))

    def denied(self, verb: str, of: ApiType, namespace: str) -> bool:
        """Return whether the cluster has denied this permission; the result is False while it has not been
        queried."""
        known = self._answers.get(_question(verb, of, namespace, ""))
        return known is not None and not known[1]

    async def _ask(self, question: Question) -> tuple[bool, str]:
        known = self._answers.get(question)
        if known is not None and time.monotonic() - known[0] < REMEMBERED:
            return known[1], known[2]
        verb, group, resource, namespace = question
        name, _, subresource = resource.partition("/")
        attributes = {
            "verb": verb,
            "group": group,
            "resource": name,
            "subresource": subresource,
            "namespace": namespace,
        }
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {k: v for k, v in attributes.items() if v}},
        }
        async with self._gate:
            reply = await self._connection.request(
                "POST", _PATH, action="check the login's permissions", body=body, repeat=True, patience=3.0
            )
        status = mapping(reply.get("status"))
        may, why = bool(status.get("allowed")), str(status.get("reason") or "")
        self._answers[question] = time.monotonic(), may, why
        return may, why


def _question(verb: str, of: ApiType, namespace: str, subresource: str) -> Question:
    return verb, of.group, f"{of.plural}/{subresource}" if subresource else of.plural, namespace
