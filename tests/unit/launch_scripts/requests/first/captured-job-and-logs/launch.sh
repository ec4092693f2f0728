set -eo pipefail
JOB=$(gcloud ai custom-jobs create --region=us-central1 --display-name=listen \
  --worker-pool-spec=machine-type=n1-standard-4,container-image-uri=gcr.io/p/listen \
  --format='value(name)')
echo "job: $JOB"
JOB_ID=${JOB##*/}
echo "logs: gcloud ai custom-jobs stream-logs $JOB_ID"
