gcloud ai custom-jobs create \
  --region=us-central1 \
  --display-name=broken-line \
  # --labels=a=b \
  --worker-pool-spec=machine-type=n1-standard-4,container-image-uri=gcr.io/p/x
