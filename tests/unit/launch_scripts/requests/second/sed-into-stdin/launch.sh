#!/bin/bash
sed "s/IMAGE_TAG/v3/" job.yaml | gcloud ai custom-jobs create --region=us-central1 --display-name=piped --config=-
