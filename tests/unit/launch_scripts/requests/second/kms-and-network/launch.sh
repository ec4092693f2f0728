#!/bin/bash
P=secure-ml
gcloud ai custom-jobs create --project=$P --region=europe-west4 --display-name=secured --worker-pool-spec=machine-type=n1-standard-8,replica-count=1,container-image-uri=gcr.io/p/x \
  --network=projects/123456/global/networks/vpc-ml --service-account=train@$P.iam.gserviceaccount.com \
  --kms-key=training --kms-keyring=ml --kms-location=europe-west4 --kms-project=$P
