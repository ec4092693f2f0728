cat << 'JSON' > job.json
{
  "worker_pool_specs": [
    {
      "machine_spec": {"machine_type": "e2-standard-8"},
      "replica_count": 1,
      "container_spec": {"image_uri": "gcr.io/tabular/xgb", "args": ["--cost=$5"]}
    }
  ],
  "service_account": "trainer@tabular.iam.gserviceaccount.com"
}
JSON
gcloud ai custom-jobs create --region=europe-west2 --display-name=xgb-nightly --config=job.json --labels=cadence=nightly
