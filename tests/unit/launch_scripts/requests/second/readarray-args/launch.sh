#!/bin/bash
readarray -t lines < args.txt
joined=$(printf ",%s" "${lines[@]}")
gcloud ai custom-jobs create --region=us-central1 --display-name=ra --worker-pool-spec=machine-type=n1-standard-8,replica-count=1,container-image-uri=gcr.io/p/x --args="${joined:1}"
