#!/bin/bash
while IFS=, read -r name machine count
do
  [ "$name" = "name" ] && continue
  gcloud ai custom-jobs create --region=us-west1 --display-name="${name}" \
    --worker-pool-spec="machine-type=${machine},replica-count=${count},container-image-uri=gcr.io/p/x"
done < jobs.csv
