#!/bin/bash
TAG=v7
sed -e "s|__TAG__|${TAG}|g" -e "s/__EPOCHS__/12/" template.yaml > filled.yaml
gcloud ai custom-jobs create --region=us-central1 --display-name=seg-$TAG --config=filled.yaml
