"""A login command of a kubeconfig: prints a token of Google's application-default credentials.

`python -m tui.backends.kubernetes.login.gke_token` replaces gke-gcloud-auth-plugin.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC
from typing import Any

SCOPES = [
    "https://www.googleapis.com/auth/cloud-platform",
    "https://www.googleapis.com/auth/userinfo.email",
]


def credential(credentials: Any) -> dict[str, Any]:
    """Convert valid credentials to an ExecCredential."""
    status = {"token": credentials.token}
    if credentials.expiry is not None:
        status["expirationTimestamp"] = credentials.expiry.replace(tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}


def main() -> int:
    """Print the ExecCredential; errors go to stderr."""
    import google.auth
    from google.auth import exceptions

    from tui.backends.vertex.transport.connect import token_request

    try:
        credentials, _ = google.auth.default(scopes=SCOPES, request=token_request())
        credentials.refresh(token_request())
    except exceptions.GoogleAuthError as error:
        sys.stderr.write(f"{error}. Run `gcloud auth application-default login`.\n")
        return 1
    sys.stdout.write(json.dumps(credential(credentials)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
