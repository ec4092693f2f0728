"""Faults of storage, permissions, networks, launchers and services that the run depends on."""

# fmt: off
from __future__ import annotations

from typing import Any

from tests.corpus.failures.case import Case, Root
from tests.corpus.failures.cases.mix import mixed
from tests.corpus.failures.harness import SERVER

HUB = ((SERVER, "https://huggingface.co"),)
GCS = ((SERVER, "https://storage.googleapis.com"),)


def storage() -> list[Case]:
    f, r = "storage-gcs", "remote."
    heavy: dict[str, Any] = {"light": False, "ranks": 1, "limit": 90.0, "replace": GCS}
    return [
        mixed("gcs_no_bucket", f, "bucket", "NotFound: 404", r + "bucket_get", stage="build", on="zero", options={"bucket": "missing-bucket-eu"}, replicas=2, **heavy),
        mixed("gcs_no_object", (f, "data"), "train-00001.tar", "NotFound: 404|InvalidResponse", r + "bucket_read", stage="build", options={"bucket": "train-data-eu"}, replicas=3, **heavy),
        mixed("gcs_503", f, "503", "RetryError|ServiceUnavailable: 503|InvalidResponse", r + "bucket_read", stage="build", options={"bucket": "down-eu"}, replicas=2, **heavy),
        mixed("gcs_429", f, "429", "TooManyRequests: 429|RetryError|InvalidResponse", r + "bucket_write", stage="build", on="zero", options={"bucket": "hot-models"}, replicas=2, **heavy),
        mixed("gcsfuse_gone", f, "Transport endpoint is not connected", "Transport endpoint is not connected", "checkpointing.fuse_gone", stage="save", on="zero", really=False, replicas=8, settings={"save_every": 5}),
        mixed("gcsfuse_io", f, "Input/output error", "Input/output error", "checkpointing.fuse_gone", options={"number": 5, "path": "/gcs/acme-data/shards/000812.tar"}, really=False, replicas=32),
        mixed("gcsfuse_stale", f, "Stale file handle", "Stale file handle", "checkpointing.fuse_gone", options={"number": 116, "path": "/gcs/train-artifacts/run/latest"}, stage="build", really=False, replicas=4),
    ]


def permissions() -> list[Case]:
    f, r = "permission", "remote."
    heavy: dict[str, Any] = {"light": False, "ranks": 1, "limit": 90.0}
    return [
        mixed("write_denied", f, "Permission denied", "PermissionError: \\[Errno 13\\] Permission denied", "system.unprivileged_write", stage="build", replicas=8, ranks=1, options={"path": "/tmp/corpus-ml-output"}, replace=(("/tmp/corpus-ml-output", "/opt/ml/output"),)),
        mixed("token_denied", f, "Permission denied", "PermissionError: \\[Errno 13\\] Permission denied", "system.unprivileged_read", stage="setup", replicas=4, ranks=1, options={"path": "/tmp/corpus-secrets/hf/token"}, replace=(("/tmp/corpus-secrets", "/secrets"),), platform="kubernetes"),
        mixed("low_port_denied", (f, "launcher"), "Permission denied", "PermissionError: \\[Errno 13\\] Permission denied", "system.bind_low_port", stage="setup", on="zero", replicas=3, ranks=1),
        mixed("gcs_403_read", f, "storage.objects.get", "Forbidden: 403|InvalidResponse", r + "bucket_read", stage="build", on="all", options={"bucket": "private-data"}, replicas=2, replace=GCS, **heavy),
        mixed("gcs_403_write", f, "storage.objects.create", "Forbidden: 403|InvalidResponse", r + "bucket_write", stage="save", on="zero", options={"bucket": "private-models"}, replicas=2, replace=GCS, settings={"save_every": 5}, **heavy),
        mixed("hub_gated", f, "meta-llama/Llama-3.1-8B", "GatedRepoError|Access to model meta-llama/Llama-3.1-8B is restricted|You are trying to access a gated repo", r + "hub_config", stage="build", on="all", options={"repo": "meta-llama/Llama-3.1-8B"}, replicas=2, replace=HUB, **heavy),
        mixed("hub_gated_file", f, "meta-llama/Llama-3.1-8B", "GatedRepoError|Access to model meta-llama/Llama-3.1-8B is restricted", r + "hub_file", stage="build", options={"repo": "meta-llama/Llama-3.1-8B"}, replicas=4, replace=HUB, **heavy),
        mixed("hub_not_on_list", f, "forbidden-org/base", "GatedRepoError|not in the authorized list", r + "hub_file", stage="build", on="all", options={"repo": "forbidden-org/base"}, replicas=2, replace=HUB, **heavy),
        mixed("hub_private_or_none", (f, "config-flag", "dependency-service"), "no-such-model", "RepositoryNotFoundError|Repository Not Found|is not a local folder|Invalid username or password", r + "hub_file", stage="build", on="zero", options={"repo": "acme/no-such-model"}, replicas=3, replace=HUB, **heavy),
        mixed("adc_missing", f, "default credentials", "DefaultCredentialsError", r + "default_credentials", stage="build", replicas=4, **heavy),
        mixed("service_account_file", (f, "config-flag"), "client_email", "MalformedError", r + "load_key", stage="setup", on="all", replicas=2, **heavy),
        mixed("wandb_no_key", f, "API key", "UsageError: (api_key not configured|No API key configured)", r + "wandb_key", stage="build", on="zero", replicas=2, **heavy),
        mixed("http_401", (f, "dependency-service"), "401", "HTTPError: 401 Client Error", r + "get", stage="build", options={"path": "/unauthorized/v1/runs"}, replicas=4, replace=(("http://127.0.0.1", "http://tracking.acme.internal"),), **heavy),
        mixed("scope_insufficient", f, "scope", "ACCESS_TOKEN_SCOPE_INSUFFICIENT|insufficient authentication scopes", "worded.raise_text", stage="build", on="zero", really=False, replicas=4, options={"module": "google.api_core.exceptions", "name": "PermissionDenied", "text": '403 Request had insufficient authentication scopes. [reason: "ACCESS_TOKEN_SCOPE_INSUFFICIENT"\ndomain: "googleapis.com"\nmetadata {\n  key: "service"\n  value: "aiplatform.googleapis.com"\n}\n]'}),
        mixed("secret_manager_403", f, "secretmanager.versions.access", "secretmanager.versions.access", "worded.raise_text", stage="setup", on="all", really=False, replicas=8, ranks=1, options={"module": "google.api_core.exceptions", "name": "PermissionDenied", "text": "403 Permission 'secretmanager.versions.access' denied for resource 'projects/482910/secrets/hf-token/versions/latest' (or it may not exist)."}),
        mixed("bigquery_403", f, "bigquery.jobs.create", "bigquery.jobs.create", "worded.raise_text", stage="build", on="zero", really=False, replicas=2, options={"module": "google.api_core.exceptions", "name": "Forbidden", "text": "403 POST https://bigquery.googleapis.com/bigquery/v2/projects/ml-prod/jobs?prettyPrint=false: Access Denied: Project ml-prod: User does not have bigquery.jobs.create permission in project ml-prod."}),
    ]


def networks() -> list[Case]:
    f, r = "network", "remote."
    nds = (f, "dependency-service")
    return [
        mixed("redis_refused", nds, "Connection refused", "Connection refused", r + "connect", options={"real": "127.0.0.1", "port": 6379}, replicas=6),
        mixed("dns_unknown", (f, "launcher"), "", "socket.gaierror", r + "resolve", stage="setup", replicas=8, ranks=1, platform="kubernetes"),
        mixed("dns_feature_store", nds, "", "socket.gaierror|URLError", r + "fetch", options={"url": "http://feature-store.acme.internal/v1/f"}, replicas=4),
        mixed("tls_self_signed", f, "certificate", "SSLError|CERTIFICATE_VERIFY_FAILED", r + "get", stage="build", light=False, ranks=1, options={"url": "tls"}, replicas=2, replace=(("127.0.0.1", "artifacts.acme.internal"),)),
        mixed("tls_wrong_version", (f, "config-flag"), "SSL", "WRONG_VERSION_NUMBER|SSL", r + "fetch", stage="build", options={"url": "plain"}, replicas=3, ranks=1),
        mixed("read_timed_out", nds, "timed out", "ReadTimeout|Read timed out|TimeoutError: timed out", r + "fetch", options={"path": "/stall"}, replicas=4, ranks=1, light=False, settings={"collective": "gloo"}),
        mixed("hub_no_connection", f, "connect", "couldn't connect to", r + "hub_config", stage="build", light=False, ranks=1, on="all", replicas=2, env={"HF_ENDPOINT": "http://127.0.0.1:9"}, replace=(("http://127.0.0.1:9", "https://huggingface.co"),), limit=150.0),
        mixed("http_404", ("dependency-service", "config-flag", "data"), "404", "HTTPError: HTTP Error 404|HTTPError: 404", r + "fetch", stage="build", options={"path": "/teapot/vocab.json"}, replicas=8),
    ]


def dependencies() -> list[Case]:
    f, r = "dependency-service", "remote."
    heavy: dict[str, Any] = {"light": False, "ranks": 1, "limit": 150.0}
    return [
        mixed("http_503", (f, "network"), "503", "HTTP Error 503", r + "fetch", options={"path": "/busy"}, replicas=12),
        mixed("http_500", f, "500", "HTTP Error 500", r + "fetch", options={"path": "/broken"}, replicas=4, on="zero"),
        mixed("hub_429", f, "", "429 Client Error|HfHubHTTPError", r + "hub_file", stage="build", on="all", options={"repo": "acme/too-many"}, replicas=2, replace=HUB, **heavy),
        mixed("hub_503", (f, "network"), "503", "503 Server Error|HfHubHTTPError", r + "hub_file", stage="build", options={"repo": "acme/busy-model"}, replicas=2, replace=HUB, **heavy),
        mixed("mlflow_500", f, "", "MlflowException", r + "mlflow_run", stage="build", on="zero", replicas=2, **heavy),
        mixed("optuna_storage", (f, "config-flag", "disk"), "unable to open database file", "unable to open database file", r + "database", stage="build", on="zero", replicas=2, **heavy),
        mixed("requests_503", (f, "network"), "503", "HTTPError: 503 Server Error", r + "get", options={"path": "/busy"}, replicas=2, **heavy),
        mixed("httpx_404", (f, "config-flag", "data"), "404", "Client error '404 Not Found'", r + "httpx_get", options={"path": "/teapot/prompts"}, stage="build", replicas=3, **heavy),
        mixed("wandb_comm", (f, "network", "timeout"), "Run initialization has timed out", "CommError: Run initialization has timed out", "worded.raise_text", stage="build", on="zero", really=False, replicas=8, options={"module": "wandb.errors", "name": "CommError", "text": "Run initialization has timed out after 90.0 sec. Please try increasing the timeout with the `init_timeout` setting: `wandb.init(settings=wandb.Settings(init_timeout=120))`."}),
        mixed("redis_auth", (f, "permission"), "NOAUTH", "NOAUTH", "worded.raise_text", stage="build", really=False, replicas=4, options={"module": "redis.exceptions", "name": "AuthenticationError", "text": "NOAUTH Authentication required."}),
        mixed("postgres_down", (f, "network"), "5432", "connection to server at", "worded.raise_text", stage="build", on="all", really=False, replicas=4, options={"module": "psycopg2", "name": "OperationalError", "text": 'connection to server at "10.20.0.9", port 5432 failed: Connection refused\n\tIs the server running on that host and accepting TCP/IP connections?'}),
    ]


def launchers() -> list[Case]:
    f = "launcher"
    return [
        mixed("port_in_use", (f, "network"), "Address already in use", "Address already in use", "remote.port_in_use", stage="setup", on="zero", replicas=8, ranks=1),
        mixed("rendezvous_short", (f, "network", "timeout"), "", "clients joined|client socket has timed out", "system.hang", stage="setup", on=[6], replicas=8, ranks=1, settings={"join_timeout": 300.0, "collective": "gloo", "noise": ["omp", "nccl"]}, platform="vertex", grace=20.0, root=Root(("clients joined", "client socket has timed out"), ("",), every=True), retry=("yes", "change"), note="worker 1-5 never joins and prints nothing after its start-up"),
        mixed("master_addr_unset", (f, "config-flag"), "MASTER_ADDR", "environment variable MASTER_ADDR expected, but not set", "worded.raise_text", stage="setup", on="all", really=False, replicas=4, options={"name": "ValueError", "text": "Error initializing torch.distributed using env:// rendezvous: environment variable MASTER_ADDR expected, but not set"}),
        mixed("ssh_refused", (f, "network"), "port 22", "ssh: connect to host", "worded.say_and_leave", stage="setup", on="zero", really=False, replicas=4, ranks=1, settings={"noise": ["entrypoint"]}, options={"code": 255, "text": "ssh: connect to host train-worker-2.train port 22: Connection refused\r\npdsh@train-master-0: train-worker-2.train: ssh exited with exit code 255"}),
        mixed("mpirun_slots", (f, "config-flag"), "slots", "not enough slots available", "worded.say_and_leave", stage="setup", on="zero", really=False, replicas=2, ranks=1, settings={"noise": ["entrypoint"]}, options={"code": 1, "text": "--------------------------------------------------------------------------\nThere are not enough slots available in the system to satisfy the 16\nslots that were requested by the application:\n\n  python\n\nEither request fewer procs for your application, or make more slots\navailable for use.\n--------------------------------------------------------------------------"}),
        mixed("host_key", f, "Host key verification failed", "Host key verification failed", "worded.say_and_leave", stage="setup", on="zero", really=False, replicas=4, ranks=1, platform="kubernetes", settings={"noise": ["ldconfig"]}, options={"code": 1, "text": "Host key verification failed.\r\n--------------------------------------------------------------------------\nORTE was unable to reliably start one or more daemons.\nThis usually is caused by:\n\n* not finding the required libraries and/or binaries on\n  one or more nodes. Please check your PATH and LD_LIBRARY_PATH\n  settings, or configure OMPI with --enable-orterun-prefix-by-default"}),
        mixed("port_in_use_nccl", (f, "network"), "29500", "EADDRINUSE", "worded.raise_text", stage="setup", on="zero", really=False, replicas=16, ranks=1, options={"module": "torch.distributed", "name": "DistNetworkError", "text": "The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"}),
    ]


def services() -> list[Case]:
    return [*storage(), *permissions(), *networks(), *dependencies(), *launchers()]
