PROJECT_ID=$(gcloud config get-value project 2>/dev/null)
REGION=${REGION:=us-central1}
IMAGE_URI=gcr.io/$PROJECT_ID/mnist:$(date '+%Y-%m-%d')
gcloud ai custom-jobs create --project "$PROJECT_ID" --region "$REGION" --display-name mnist \
  --worker-pool-spec machine-type=n1-standard-4,container-image-uri="$IMAGE_URI" \
  --service-account="vertex-sa@${PROJECT_ID}.iam.gserviceaccount.com"
