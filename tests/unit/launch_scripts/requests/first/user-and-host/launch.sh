OWNER=$(whoami)
gcloud ai custom-jobs create --region=us-central1 \
  --display-name="${OWNER}-sweep-$(date +%s)" \
  --labels=owner="$OWNER",day=$(date +%F) \
  --worker-pool-spec=machine-type=n1-standard-4,container-image-uri=gcr.io/p/sweep
