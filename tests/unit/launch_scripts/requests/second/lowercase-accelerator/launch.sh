gcloud ai custom-jobs create --region=us-central1 --display-name=low \
  --worker-pool-spec=machine-type=n1-standard-8,replica-count=1,accelerator-type=nvidia-tesla-t4,accelerator-count=1,container-image-uri=gcr.io/p/x
