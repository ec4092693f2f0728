#!/bin/bash
opts=(--data=gs://b/train "--name=wide and deep" --verbose)
printf -v csv '%s,' "${opts[@]}"
gcloud ai custom-jobs create --region=europe-west1 --display-name=csv --worker-pool-spec=machine-type=n1-standard-8,replica-count=1,container-image-uri=gcr.io/p/x --args="${csv%,}"
