gcloud --project=media-lab --quiet beta ai custom-jobs create --region=us-central1 \
  --display-name=beta-run --persistent-resource-id=pool-a \
  --worker-pool-spec=machine-type=n1-standard-4,container-image-uri=gcr.io/p/x
