#!/bin/bash
set -e
if gcloud ai custom-jobs create --region=us-central1 --display-name=iffy --worker-pool-spec=machine-type=n1-standard-8,replica-count=1,container-image-uri=gcr.io/p/x; then
  echo "submitted"
else
  echo "failed" >&2
  exit 1
fi
