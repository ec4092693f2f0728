#!/bin/bash
declare -a ARGS
for kv in epochs=10 lr=0.01 optimizer=adam; do
  ARGS+=("--${kv}")
done
JOINED=$(IFS=','; echo "${ARGS[*]}")
gcloud ai custom-jobs create --region=europe-west1 --display-name=loopargs \
  --worker-pool-spec=machine-type=n1-standard-8,replica-count=1,container-image-uri=gcr.io/p/x --args="$JOINED"
