#!/bin/bash
FLAGS=(
  --region=us-central1
  --display-name=commented
  # --service-account=old@p.iam.gserviceaccount.com
  --worker-pool-spec=machine-type=n1-standard-8,replica-count=1,container-image-uri=gcr.io/p/x
  --enable-web-access  # to look inside
)
gcloud ai custom-jobs create "${FLAGS[@]}"
