#!/bin/bash
export $(grep -v '^#' .env | xargs)
gcloud ai custom-jobs create --region=$REGION --display-name=$NAME --worker-pool-spec=machine-type=n1-standard-8,replica-count=1,container-image-uri=gcr.io/p/x
