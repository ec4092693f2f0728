#!/bin/bash
cat job.yaml | gcloud ai custom-jobs create --region=us-central1 --display-name=catted --config=/dev/stdin
