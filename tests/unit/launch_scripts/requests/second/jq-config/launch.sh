#!/bin/bash
IMAGE=gcr.io/p/jq:1
jq -n --arg image "$IMAGE" '{workerPoolSpecs:[{machineSpec:{machineType:"n1-standard-4"},replicaCount:1,containerSpec:{imageUri:$image}}]}' > config.json
gcloud ai custom-jobs create --region=us-central1 --display-name=jqd --config=config.json
