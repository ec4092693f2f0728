"""TestIamPermissions of projects and of service accounts.

Services `google.cloud.resourcemanager.v3.Projects` and `google.iam.admin.v1.IAM`. All permissions are granted
except those that a fault or the configuration denies.
"""

from __future__ import annotations

import fnmatch
import re

from google.cloud.iam_admin_v1.types import iam as iam_types
from google.cloud.resourcemanager_v3.types import projects as project_types
from google.iam.v1 import iam_policy_pb2

from tui.emulator.config import EmulatorConfig
from tui.emulator.interfaces import project_number
from tui.emulator.messages import Pb
from tui.emulator.rpc.methods import Method, invalid, methods_of, not_found
from tui.emulator.services.check_faults import ActiveCheckFaults

PROJECTS = "google.cloud.resourcemanager.v3.Projects"
ACCOUNTS = "google.iam.admin.v1.IAM"
ACCOUNT = re.compile(r"projects/(?P<project>[^/]+)/serviceAccounts/(?P<email>[^/@]+@[^/]+)")
ProjectPb = project_types.Project.pb()
AccountPb = iam_types.ServiceAccount.pb()
_TEST = iam_policy_pb2.TestIamPermissionsRequest, iam_policy_pb2.TestIamPermissionsResponse


class PermissionTests:
    """RPC handlers of permission tests."""

    def __init__(self, config: EmulatorConfig, checks: ActiveCheckFaults) -> None:
        self._config = config
        self._checks = checks

    async def get_project(self, request: Pb) -> Pb:
        project = _project("name", request.name)
        return ProjectPb(
            name=f"projects/{project_number(project)}",
            project_id=project,
            display_name=project,
            state=int(project_types.Project.State.ACTIVE),
        )

    async def test_project(self, request: Pb) -> Pb:
        _project("resource", request.resource)
        return self._granted(request)

    async def test_account(self, request: Pb) -> Pb:
        self._account("resource", request.resource)
        return self._granted(request)

    async def get_account(self, request: Pb) -> Pb:
        project, email = self._account("name", request.name)
        return AccountPb(name=f"projects/{project}/serviceAccounts/{email}", project_id=project, email=email)

    def _granted(self, request: Pb) -> Pb:
        if any("*" in permission for permission in request.permissions):
            raise invalid(("permissions", "permissions must not contain wildcards"))
        granted = [name for name in request.permissions if not self._checks.denies(name)]
        return iam_policy_pb2.TestIamPermissionsResponse(permissions=granted)

    def _account(self, field: str, name: str) -> tuple[str, str]:
        match = ACCOUNT.fullmatch(name)
        if match is None:
            raise invalid((field, f"{name!r} must have the form projects/P/serviceAccounts/EMAIL"))
        email = match["email"]
        known = any(fnmatch.fnmatchcase(email, pattern) for pattern in self._config.service_accounts)
        if not known or self._checks.current.misses(email):
            raise not_found("iam.googleapis.com/ServiceAccount", name)
        return match["project"], email


def _project(field: str, name: str) -> str:
    if not re.fullmatch(r"projects/[^/\s]+", name):
        raise invalid((field, f"{name!r} must have the form projects/P"))
    return name.removeprefix("projects/")


def project_methods(config: EmulatorConfig, checks: ActiveCheckFaults) -> list[Method]:
    """Return the RPCs of projects."""
    access = PermissionTests(config, checks)
    get = methods_of(PROJECTS, project_types, ("GetProject", access.get_project, ProjectPb))
    return [*get, Method(PROJECTS, "TestIamPermissions", *_TEST, access.test_project)]


def account_methods(config: EmulatorConfig, checks: ActiveCheckFaults) -> list[Method]:
    """Return the RPCs of service accounts."""
    access = PermissionTests(config, checks)
    get = methods_of(ACCOUNTS, iam_types, ("GetServiceAccount", access.get_account, AccountPb))
    return [*get, Method(ACCOUNTS, "TestIamPermissions", *_TEST, access.test_account)]
