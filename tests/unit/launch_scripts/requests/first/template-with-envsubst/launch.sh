#!/bin/bash
set -e
export IMAGE=gcr.io/sat/seg:9 MACHINE=n1-highmem-16
envsubst < template.yaml > job.yaml
gcloud ai custom-jobs create --region=us-central1 --display-name=seg --config=job.yaml
rm job.yaml
