"""TestIamPermissions of projects and of service accounts.

Services `google.cloud.resourcemanager.v3.Projects` and `google.iam.admin.v1.IAM`. All permissions are granted
except for those that a fault or the configuration denies.
"""

from __future__ import annotations

import fnmatch
import re
from typing import Any

from google.cloud.iam_admin_v1.types import iam as iam_types
from google.cloud.resourcemanager_v3.types import projects as project_types
from google.iam.v1 import iam_policy_pb2

from tui.emulator.config import EmulatorConfig
from tui.emulator.logging.record import Pb
from tui.emulator.rpc.methods import Method, invalid, not_found
from tui.emulator.services.check_faults import ActiveCheckFaults

PROJECTS = "google.cloud.resourcemanager.v3.Projects"
ACCOUNTS = "google.iam.admin.v1.IAM"
ACCOUNT = re.compile(r"projects/(?P<project>[^/]+)/serviceAccounts/(?P<email>[^/@]+@[^/]+)")
ProjectPb = project_types.Project.pb()
AccountPb = iam_types.ServiceAccount.pb()


class Access:
    """The handlers."""

    def __init__(self, config: EmulatorConfig, board: ActiveCheckFaults) -> None:
        self._config = config
        self._board = board

    async def get_project(self, request: Pb) -> Pb:
        project = _project("name", request.name)
        return ProjectPb(
            name=f"projects/{self._config.project_number}",
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
            raise invalid(("permissions", "permissions have no wildcards"))
        faults, refused = self._board.current, self._config.denied_permissions
        granted = [
            permission
            for permission in request.permissions
            if not faults.denies(permission)
            and not any(fnmatch.fnmatchcase(permission, pattern) for pattern in refused)
        ]
        return iam_policy_pb2.TestIamPermissionsResponse(permissions=granted)

    def _account(self, field: str, name: str) -> tuple[str, str]:
        match = ACCOUNT.fullmatch(name)
        if match is None:
            raise invalid((field, f"{name!r} is not of the form projects/P/serviceAccounts/EMAIL"))
        email = match["email"]
        known = any(fnmatch.fnmatchcase(email, pattern) for pattern in self._config.service_accounts)
        if not known or self._board.current.misses(email):
            raise not_found("iam.googleapis.com/ServiceAccount", name)
        return match["project"], email


def _project(field: str, name: str) -> str:
    if not re.fullmatch(r"projects/[^/\s]+", name):
        raise invalid((field, f"{name!r} is not of the form projects/P"))
    return name.removeprefix("projects/")


def methods(config: EmulatorConfig, board: ActiveCheckFaults) -> list[Method]:
    """The RPCs of both services."""
    here, pb = Access(config, board), iam_policy_pb2
    test: tuple[Any, Any] = (pb.TestIamPermissionsRequest, pb.TestIamPermissionsResponse)
    get_project, get_account = project_types.GetProjectRequest.pb(), iam_types.GetServiceAccountRequest.pb()
    projects = [
        Method(PROJECTS, "GetProject", get_project, ProjectPb, here.get_project),
        Method(PROJECTS, "TestIamPermissions", *test, here.test_project),
    ]
    accounts = [
        Method(ACCOUNTS, "GetServiceAccount", get_account, AccountPb, here.get_account),
        Method(ACCOUNTS, "TestIamPermissions", *test, here.test_account),
    ]
    return [*board.apply("projects", projects), *board.apply("accounts", accounts)]
