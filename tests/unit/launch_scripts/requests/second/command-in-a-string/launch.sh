#!/bin/bash
CMD="gcloud ai custom-jobs create --region=us-central1 --display-name=strung"
CMD="$CMD --worker-pool-spec=machine-type=n1-standard-8,replica-count=1,container-image-uri=gcr.io/p/x"
[ -n "$DRY_RUN" ] && CMD="echo $CMD"
$CMD
