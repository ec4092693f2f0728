#!/bin/bash
spec() {
  local machine=$1 count=${2:-1}
  echo "machine-type=${machine},replica-count=${count},container-image-uri=${IMAGE:?set IMAGE}"
}
IMAGE=gcr.io/p/fn
gcloud ai custom-jobs create --region=us-central1 --display-name=fn \
  --worker-pool-spec="$(spec n1-standard-4)" --worker-pool-spec="$(spec n1-standard-16 3)"
