SPEC=machine-type=n1-standard-4,container-image-uri=gcr.io/p/x
gcloud ai custom-jobs create --region=us-central1 --display-name=first --worker-pool-spec=$SPEC \
  || { echo "create failed"; exit 1; }
