#!/bin/bash
while read -r lr bs; do
  gcloud ai custom-jobs create --region=us-west1 --display-name="grid-$lr-$bs" \
    --worker-pool-spec=machine-type=n1-standard-8,replica-count=1,container-image-uri=gcr.io/p/x --args="--lr=$lr,--bs=$bs"
done <<EOF
0.1 32
0.01 64
EOF
