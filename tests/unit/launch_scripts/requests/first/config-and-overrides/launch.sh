gcloud ai custom-jobs create --region=europe-west4 --display-name=override --config=configs/base.yaml \
  --args=--epochs=3 --command=python,run.py --service-account=sa@p.iam.gserviceaccount.com --enable-web-access
