#!/bin/bash
MACHINE=n1-standard-8
ACCEL=""
COUNT=1
DEBUG=0
while [[ $# -gt 0 ]]; do
  case $1 in
    -m|--machine) MACHINE="$2"; shift 2 ;;
    -a|--accelerator) ACCEL="$2"; shift 2 ;;
    --debug) DEBUG=1; shift ;;
    *) echo "Unknown option $1"; exit 2 ;;
  esac
done

SPEC="machine-type=${MACHINE},replica-count=${COUNT}"
if [[ -n "$ACCEL" ]]; then
  SPEC+=",accelerator-type=${ACCEL},accelerator-count=1"
fi
SPEC+=",container-image-uri=gcr.io/speech-team/asr:stable"
CMD=(gcloud ai custom-jobs create --region=us-central1 --display-name=asr-train "--worker-pool-spec=$SPEC")
(( DEBUG )) && CMD+=(--enable-web-access)
"${CMD[@]}"
