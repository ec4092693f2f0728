"""Kueue's version v1beta1, by kubectl and over HTTP: it is stored as v1beta2."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.waiting import LIMIT
from tests.wire.kubernetes.control import client, emulator

OLD, NEW = "/apis/kueue.x-k8s.io/v1beta1", "/apis/kueue.x-k8s.io/v1beta2"


async def test_the_older_version_of_kueue_is_served() -> None:
    async with emulator(node_pools=[]) as running, client(running) as http:
        flavors = [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": 9}]}]
        queue = {
            "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": "cq"},
            "spec": {
                "cohort": "all", "namespaceSelector": {}, "admissionChecks": ["check"],
                "flavorFungibility": {"whenCanBorrow": "Borrow"},
                "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
            },
        }  # fmt: skip
        made = await http.post(f"{OLD}/clusterqueues", json=queue)
        assert made.status_code == 201, made.text
        assert made.json()["apiVersion"] == queue["apiVersion"] and made.json()["spec"]["cohort"] == "all"
        stored = (await http.get(f"{NEW}/clusterqueues/cq")).json()
        assert stored["apiVersion"] == "kueue.x-k8s.io/v1beta2" and stored["spec"]["cohortName"] == "all"
        assert stored["spec"]["admissionChecksStrategy"] == {"admissionChecks": [{"name": "check"}]}
        patch = {"spec": {"cohort": "other"}}
        headers = {"content-type": "application/merge-patch+json"}
        changed = await http.patch(f"{OLD}/clusterqueues/cq", content=json.dumps(patch), headers=headers)
        assert changed.json()["spec"]["cohort"] == "other"
        listed = (await http.get(f"{OLD}/clusterqueues")).json()
        assert listed["apiVersion"] == queue["apiVersion"] and listed["items"][0]["spec"]["cohort"] == "other"
        async with http.stream("GET", f"{OLD}/clusterqueues", params={"watch": "true"}) as reply:
            async with asyncio.timeout(LIMIT):
                event = json.loads(await anext(reply.aiter_lines()))
        assert event["type"] == "ADDED" and event["object"]["spec"]["cohort"] == "other"
        assert (await http.post(f"{OLD}/clusterqueues", content=b"[")).status_code == 400
        groups = (await http.get("/apis/kueue.x-k8s.io")).json()
        assert groups["preferredVersion"]["version"] == "v1beta2" and len(groups["versions"]) == 2


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
async def test_the_set_up_objects_of_kueue_are_accepted_and_checked(version: str) -> None:
    url, group = f"/apis/kueue.x-k8s.io/{version}", f"kueue.x-k8s.io/{version}"
    levels = [{"nodeLabel": "cloud.google.com/gce-topology-block"}, {"nodeLabel": "kubernetes.io/hostname"}]
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "dws"}
    check = {"controllerName": "kueue.x-k8s.io/provisioning-request", "parameters": parameters}
    async with emulator(node_pools=[]) as running, client(running) as http:
        for kind, plural, spec in (("Topology", "topologies", {"levels": levels}),
                                   ("AdmissionCheck", "admissionchecks", check)):  # fmt: skip
            body = {"apiVersion": group, "kind": kind, "metadata": {"name": "a"}, "spec": spec}
            reply = await http.post(f"{url}/{plural}", json=body)
            assert reply.status_code == 201, reply.text
            wrong = {**body, "metadata": {"name": "b"}, "spec": {}}
            assert (await http.post(f"{url}/{plural}", json=wrong)).status_code == 422
