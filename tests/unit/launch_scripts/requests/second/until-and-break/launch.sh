#!/bin/bash
n=0
until [ $n -ge 5 ]; do
  n=$((n+1))
  (( n % 2 )) && continue
  gcloud ai custom-jobs create --region=us-central1 --display-name=n$n --worker-pool-spec=machine-type=n1-standard-8,replica-count=1,container-image-uri=gcr.io/p/x
  if [ $n = 4 ]; then break; fi
done
