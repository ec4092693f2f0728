"""Upload two versions of a model `answers`, and deploy the first to `front-door`, on the emulator.

The calls of Google's SDK work in any project; only `connect` is specific to the emulator.
"""

import json
import subprocess
import sys
from pathlib import Path

from google.cloud import aiplatform
from google.oauth2.credentials import Credentials

SERVER = Path(__file__).with_name("serve.py")


def connect() -> None:
    """Start the emulator with REST, and point the SDK to it."""
    subprocess.run(["vxtui", "emulator", "start", "--rest", "127.0.0.1:0"], check=True, stdout=sys.stderr)
    status = json.loads(subprocess.check_output(["vxtui", "emulator", "status", "--json"]))
    token = (Path(status["state_dir"]) / "token").read_text().strip()
    aiplatform.init(
        project="local", location="us-central1", credentials=Credentials(token),
        api_transport="rest", api_endpoint=status["rest"],
    )  # fmt: skip


def upload(version: int, parent: str | None = None) -> aiplatform.Model:
    """Upload one version; the first stays the default one."""
    return aiplatform.Model.upload(
        display_name="answers", parent_model=parent, is_default_version=version == 1,
        serving_container_image_uri="python:3.11",
        serving_container_command=[sys.executable, str(SERVER), str(version)],
        serving_container_predict_route="/predict", serving_container_health_route="/health",
    )  # fmt: skip


def main() -> None:
    """Create the example."""
    connect()
    model = upload(1)
    upload(2, parent=model.resource_name)
    endpoint = aiplatform.Endpoint.create(display_name="front-door")
    endpoint.deploy(model, machine_type="n1-standard-4", traffic_percentage=100)
    for number in range(3):
        print(endpoint.predict([[number]]).predictions)


if __name__ == "__main__":
    main()
