"""Checks of the caller: credentials, permissions, acting as a service account."""

from __future__ import annotations

from collections.abc import Sequence

from tui.backends.interface import ContextInfo, NotFound, Unauthenticated
from tui.backends.vertex.preflight.clients import CheckClients
from tui.domain.vertex.preflight import Check, CheckStatus, ok, unknown

NEEDED = ("create", "get")
"""Verbs on the job's collection that a launch needs (docs/facts/vertex.md 2.5)."""
FOLLOWED = ("list", "cancel")
"""Verbs on the job's collection that following a job needs."""
USEFUL = ("logging.logEntries.list", "monitoring.timeSeries.list")
"""Permissions that reading the logs and metrics of a job needs."""
ACT_AS = "iam.serviceAccounts.actAs"
_ROLES = {
    "aiplatform": "roles/aiplatform.user",
    "logging": "roles/logging.viewer",
    "monitoring": "roles/monitoring.viewer",
}


class CallerAccess:
    """Checks which permissions IAM grants to the caller."""

    def __init__(self, info: ContextInfo, clients: CheckClients) -> None:
        self._info = info
        self._clients = clients

    @property
    def _account(self) -> str:
        """The caller's account, or "" if the credentials don't name it."""
        credentials = self._clients.clients.endpoint.credentials
        email = getattr(credentials, "service_account_email", "") or getattr(credentials, "account", "")
        return "" if email == "default" else str(email)

    async def caller(self, collection: str = "customJobs") -> Sequence[Check]:
        """Check credentials and the project's permissions for the jobs of a collection, with one call."""
        project = self._info.project
        needed = [f"aiplatform.{collection}.{verb}" for verb in NEEDED]
        useful = [*(f"aiplatform.{collection}.{verb}" for verb in FOLLOWED), *USEFUL]
        request = {"resource": f"projects/{project}", "permissions": [*needed, *useful]}
        try:
            reply = await self._clients.read(
                f"check the permissions in {project}",
                lambda: self._clients.projects().test_iam_permissions,
                request,
            )
        except Unauthenticated as error:
            refused = Check("credentials", CheckStatus.PROBLEM, error.message, error.fix)
            return [refused, unknown("permissions", "can't be looked up without valid credentials")]
        except NotFound as error:
            gone = (
                f"the project {project} does not exist, or permission to read it is missing: {error.message}"
            )
            fix = "Check `project` in the context's settings."
            return [
                ok("credentials", self._signed_in()),
                Check("permissions", CheckStatus.PROBLEM, gone, fix),
            ]
        return [ok("credentials", self._signed_in()), self._granted(set(reply.permissions), needed, useful)]

    def _signed_in(self) -> str:
        return f"signed in as {self._account}" if self._account else "the service accepts the credentials"

    def _granted(self, granted: set[str], needed: Sequence[str], useful: Sequence[str]) -> Check:
        caller, project = self._account or "you", self._info.project
        lacking = [p for p in needed if p not in granted]
        hindering = [p for p in useful if p not in granted]
        if not lacking and not hindering:
            return ok("permissions", f"{caller} may create, follow and cancel jobs in {project}")
        names = lacking + hindering
        roles = ", ".join(dict.fromkeys(_ROLES[name.partition(".")[0]] for name in names))
        sentence = f"{caller} lack{'s' if self._account else ''} {', '.join(names)} in {project}"
        fix = f"Ask the project's owner for {roles}."
        return Check("permissions", CheckStatus.PROBLEM, sentence, fix, stops=bool(lacking))

    async def account(self, email: str) -> Sequence[Check]:
        """Check whether the caller may run a job as this account."""
        project = _home(email)
        resource = f"projects/{project}/serviceAccounts/{email}"
        try:
            reply = await self._clients.read(
                f"check the permissions on {email}",
                lambda: self._clients.accounts().test_iam_permissions,
                {"resource": resource, "permissions": [ACT_AS]},
            )
        except NotFound:
            fix = (
                f"`gcloud iam service-accounts list --project={self._info.project}` lists the existing ones."
            )
            return [Check("account", CheckStatus.PROBLEM, f"the service account {email} does not exist", fix)]
        if ACT_AS in reply.permissions:
            return [ok("account", f"{self._account or 'you'} may act as {email}")]
        sentence = f"{self._account or 'you'} may not act as {email} ({ACT_AS})"
        fix = "Ask for roles/iam.serviceAccountUser on that account."
        return [Check("account", CheckStatus.PROBLEM, sentence, fix)]


def _home(email: str) -> str:
    """Return the project in an account's name, or "-" (any project, to IAM) if the name contains none."""
    domain = email.partition("@")[2]
    tail = ".iam.gserviceaccount.com"
    return domain.removesuffix(tail) if domain.endswith(tail) and "gcp-sa-" not in domain else "-"
