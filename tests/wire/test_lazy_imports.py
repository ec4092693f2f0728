"""Lazy imports in processes of their own: what they save, and that nobody else notices."""

from __future__ import annotations

import json
import os
import subprocess
import sys

MEASURE = """
import json, re, sys, time
from pathlib import Path
began = time.process_time()
from tui import lazy_imports
lazy_imports.load()
print(json.dumps({
    "cpu": time.process_time() - began,
    "rss": int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]),
    "modules": len(sys.modules),
}))
"""
EVERYBODY = """
from tui import lazy_imports
lazy_imports.load()
from google.cloud import aiplatform, aiplatform_v1, monitoring_v3
from google.cloud.aiplatform_v1 import types
import google.cloud.logging
from google.auth.credentials import AnonymousCredentials
aiplatform.init(
    project="p", location="us-central1", api_transport="rest", api_endpoint="http://127.0.0.1:1",
    credentials=AnonymousCredentials(),
)
spec = {"machine_spec": {"machine_type": "n1-standard-4"}, "container_spec": {"image_uri": "i"}}
spec["replica_count"] = 1
job = aiplatform.CustomJob(display_name="x", worker_pool_specs=[spec], staging_bucket="gs://b")
assert job._gca_resource.job_spec.worker_pool_specs[0].replica_count == 1
from google.cloud.aiplatform_v1.services.job_service import JobServiceClient
assert aiplatform_v1.JobServiceClient is JobServiceClient
from google.cloud.aiplatform_v1.types.custom_job import CustomJob
assert types.CustomJob is CustomJob is aiplatform_v1.CustomJob
assert monitoring_v3.MetricServiceClient and google.cloud.logging.Client
for package in (aiplatform_v1, types, monitoring_v3):
    names = package.__all__
    assert len(names) > 20 and all(hasattr(package, name) for name in names)
    assert not hasattr(package, "NoSuchThing") and not hasattr(package, "__nothing__")
try:
    from google.cloud.aiplatform_v1 import NoSuchThing
except ImportError as error:
    print("refused", error.name)
"""
ALONE = """
from google.cloud.aiplatform_v1 import *
assert JobServiceClient and CustomJob
"""


def python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True,
        timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


# The eager process, which takes seconds, also tries the star import with the switch set.
def test_lazy_imports_save_a_third_of_memory_and_of_time() -> None:
    # The first one may have to read everything from disk.
    runs = [json.loads(python(MEASURE, VXTUI_EAGER_IMPORTS="")) for _ in range(2)]
    lazy = {key: min(run[key] for run in runs) for key in runs[0]}
    eager = json.loads(python(MEASURE + ALONE, VXTUI_EAGER_IMPORTS="1"))
    assert lazy["modules"] < 0.75 * eager["modules"]
    assert lazy["rss"] < 0.67 * eager["rss"]
    assert lazy["cpu"] < 0.67 * eager["cpu"]


def test_the_high_level_sdk_and_every_exported_name_still_work() -> None:
    assert "refused google.cloud.aiplatform_v1" in python(EVERYBODY)


def test_a_star_import_gets_all_names() -> None:
    python(f"from tui import lazy_imports\nlazy_imports.install()\n{ALONE}", VXTUI_EAGER_IMPORTS="")


def test_loading_leaves_the_collector_as_it_was_and_gags_grpc() -> None:
    code = (
        "import gc, os; from tui import lazy_imports; lazy_imports.load()\n"
        "assert gc.isenabled() and gc.get_freeze_count() > 10_000\n"
        "assert os.environ['GRPC_VERBOSITY'] == 'NONE'\n"
        "gc.disable(); lazy_imports.load(); assert not gc.isenabled()\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "GRPC_VERBOSITY"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_backend_is_made_without_importing_google() -> None:
    code = (
        "import sys; from tui.backends.factory import open_backend\n"
        "from tui.config.settings import Context, Settings\n"
        "open_backend(Context(name='local', kind='local', project='local'), Settings())\n"
        "open_backend(Context(name='c', kind='vertex', project='p'), Settings())\n"
        "heavy = [m for m in sys.modules if m.startswith(('grpc', 'google.cloud.', 'google.a'))]\n"
        "assert not heavy, heavy\n"
    )
    python(code)
