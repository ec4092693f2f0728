#!/bin/bash
NODES=4
WORKERS=$(( NODES > 1 ? NODES - 1 : 0 ))
gcloud ai custom-jobs create --region=us-central1 --display-name=tern \
  --worker-pool-spec=machine-type=n1-standard-4,replica-count=1,container-image-uri=gcr.io/p/x \
  --worker-pool-spec=machine-type=n1-standard-4,replica-count=$WORKERS,container-image-uri=gcr.io/p/x
