#!/bin/bash
JOB_ID="${USER}_$(date +%Y%m%d%H%M%S)"
gcloud ai custom-jobs create --region us-central1 --display-name "${JOB_ID//_/-}" \
  --worker-pool-spec machine-type=n1-standard-8,replica-count=1,container-image-uri=gcr.io/p/x --labels user=${USER}
