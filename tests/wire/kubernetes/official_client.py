"""What the official Kubernetes client does: list, watch, patch, delete. Run with a Python that has it."""

from __future__ import annotations

import sys

from kubernetes import client, config, watch


def main(name: str) -> None:
    """Prints a line for each event of the config map `name`."""
    config.load_kube_config()
    core = client.CoreV1Api()
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"test": name}), data={"a": "1"})
    core.create_namespaced_config_map("default", body)
    found = core.list_namespaced_config_map("default", label_selector=f"test={name}", limit=1)
    assert [one.data for one in found.items] == [{"a": "1"}], found
    core.patch_namespaced_config_map(name, "default", {"data": {"b": "2"}})
    core.delete_namespaced_config_map(name, "default")
    stream = watch.Watch().stream(
        core.list_namespaced_config_map, "default", label_selector=f"test={name}",
        resource_version=found.metadata.resource_version, timeout_seconds=30,
    )  # fmt: skip
    for event in stream:
        print(event["type"], event["object"].data, flush=True)
        if event["type"] == "DELETED":
            break
    try:
        core.read_namespaced_config_map(name, "default")
    except client.ApiException as error:
        print(error.status, error.reason)


if __name__ == "__main__":
    main(sys.argv[1])
