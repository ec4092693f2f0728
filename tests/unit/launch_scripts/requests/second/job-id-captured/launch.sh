#!/bin/bash
JOB=$(gcloud ai custom-jobs create --region=us-central1 --display-name=captured \
  --worker-pool-spec=machine-type=n1-standard-8,replica-count=1,container-image-uri=gcr.io/p/x --format="value(name)")
echo "Job: ${JOB##*/}"
gcloud ai custom-jobs stream-logs "$JOB" --region=us-central1 || true
