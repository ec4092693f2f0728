$ gcloud ai custom-jobs create \
    --region=us-central1 \
    --display-name=pasted \
    --worker-pool-spec=machine-type=n1-standard-4,replica-count=1,container-image-uri=gcr.io/p/x
