gcloud ai custom-jobs create \
    --region=us-central1 \
    --display-name=bert-finetune \
    --worker-pool-spec=machine-type=n1-standard-8,container-image-uri=gcr.io/nlp/bert \
    --command=bash --command=-c \
    --args="python prepare.py && python train.py --task mnli" \
    --args=unused
