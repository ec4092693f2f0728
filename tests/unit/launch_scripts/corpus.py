"""The scripts; each is our own text."""

from __future__ import annotations

FOLDER_FILES = {
    "env.sh": "export REGION=us-central1\nIMAGE=${REGION}-docker.pkg.dev/p/r/i:1\n",
    ".env": "BUCKET=gs://bucket\nNAME='a b'\n",
}

SCRIPTS = {
    "indirect": r"""#!/bin/bash
set -euo pipefail
PROJECT=my-project
REPO=us-docker.pkg.dev/$PROJECT/train
IMAGE="${REPO}/image:latest"
gcloud ai custom-jobs create --region=us-central1 \
  --display-name="job-${PROJECT}" \
  --worker-pool-spec=machine-type=n1-standard-8,replica-count=1,container-image-uri=$IMAGE
""",
    "defaults": r"""REGION="${REGION:-europe-west4}"
GPUS=${GPUS:=4}
: "${STEPS:=100}"
gcloud ai custom-jobs create --region="$REGION" --args="--gpus=$GPUS,--steps=${STEPS}" --project=${PROJECT_ID}
""",
    "parts of paths": r"""IMAGE=gcr.io/p/dir/trainer:v1.2
TAG=${IMAGE##*:}; NAME=${IMAGE##*/}; NAME=${NAME%%:*}; DIR="${IMAGE%/*}"
gcloud ai custom-jobs create --display-name=${NAME}-${TAG//./-} --args="$DIR" --labels=v=${TAG^^}
""",
    "array of flags": r"""ARGS=(
  --region=us-east1   # where
  "--display-name=my job"
)
ARGS+=("--worker-pool-spec=machine-type=a2-highgpu-1g,container-image-uri=x")
if [[ -n "${PROJECT_ID:-}" ]]; then ARGS+=(--labels=a=b); fi
gcloud ai custom-jobs create "${ARGS[@]}" --args="${#ARGS[@]}"
""",
    "joined array": r"""L=(--lr=0.1 --bs=32 --name="a b")
gcloud ai custom-jobs create --args="$(IFS=,; echo "${L[*]}")"
""",
    "config on stdin": r"""N=4
gcloud ai custom-jobs create --region=us-central1 --display-name=x --config=- <<YAML
workerPoolSpecs:
  - machineSpec:
      machineType: a3-highgpu-8g
    replicaCount: ${N}
    containerSpec:
      imageUri: gcr.io/p/i
      args: ["\$HOME", '$N']
YAML
""",
    "config file written": r"""IMG=gcr.io/p/i
cat > job.yaml <<EOF
workerPoolSpecs:
- machineSpec: {machineType: n1-standard-4}
  containerSpec:
    imageUri: $IMG
EOF
echo "# end" >> job.yaml
gcloud ai custom-jobs create --display-name=x --config=job.yaml
""",
    "quoted heredoc": r"""cat <<'EOF' > c.yaml
a: $NOT_A_VARIABLE `x`
EOF
gcloud ai custom-jobs create --config=c.yaml
""",
    "heredoc with tabs": "if true; then\n"
    "\tcat >c.yaml <<-EOF\n\ta:\n\t  - $HOME\n\tEOF\nfi\ngcloud ai --config=c.yaml\n",
    "function": r"""submit() {
  local name=$1 machine=${2:-n1-standard-4}
  shift 2 || shift
  gcloud ai custom-jobs create --display-name="$name" \
    --worker-pool-spec=machine-type=$machine,container-image-uri=i \
    "$@"
}
submit one a2-highgpu-1g --labels=x=y
submit two
""",
    "loop": r"""for lr in 0.1 0.01; do
  for seed in {1..2}; do
    gcloud ai custom-jobs create --display-name="lr-${lr/./p}-s$seed" \
      --args="--lr=$lr","--seed=$((seed * 10))"
  done
done
""",
    "counting": r"""for ((i=0; i<3; i++)); do gcloud ai "job-$i"; done
n=5
while [ $n -gt 3 ]; do gcloud ai "n-$n"; n=$((n-1)); done
""",
    "sourced": r"""cd "$(dirname "$0")"
source ./env.sh
set -a; . .env; set +a
gcloud ai custom-jobs create --region=$REGION --display-name="$NAME" --args="$BUCKET/x" --config="$IMAGE"
""",
    "options of the script": r"""NAME=default; DRY=false
while [[ $# -gt 0 ]]; do
  case "$1" in
    --name) NAME="$2"; shift 2;;
    *) echo "unknown"; exit 1;;
  esac
done
if [ "$DRY" = true ]; then echo would run; exit 0; fi
gcloud ai custom-jobs create --display-name="$NAME"
""",
    "case": r"""SIZE=large
case $SIZE in
  small|tiny) M=n1-standard-4;;
  l*) M=a3-highgpu-8g; N=2;;
  *) exit 1;;
esac
gcloud ai custom-jobs create --args=$M,${N:-1}
""",
    "quotes": r"""X='single $X' Y="double \"q\" \$Y"
gcloud ai --args="$X",'a b',$'tab\there',plain\ space,"it's" --z="$Y" -- ''
""",
    "comments in quotes": r"""gcloud ai custom-jobs create \
  `# where it runs` \
  --region=us-central1 \
  --display-name=x
""",
    "captured": r"""JOB=$(gcloud ai custom-jobs create --display-name=x --format='value(name)')
echo "Created ${JOB}"
""",
    "checked tools": r"""command -v gcloud >/dev/null || { echo "no gcloud" >&2; exit 1; }
[[ -z "${PROJECT_ID}" ]] && { echo "Set PROJECT_ID"; exit 1; }
gcloud config set project "$PROJECT_ID" && gcloud ai custom-jobs create --display-name=x | tee log.txt
""",
    "words in a variable": r"""FLAGS="--region=us-central1 --labels=a=b"
CMD="gcloud ai custom-jobs create"
$CMD $FLAGS --display-name=x
""",
    "indirect expansion": r"""IMAGE_gpu=gcr.io/p/gpu
KIND=gpu; REF=IMAGE_$KIND
gcloud ai custom-jobs create --args="${!REF}"
""",
    "eval": r"""C="gcloud ai custom-jobs create --display-name='a b'"
C+=" --region=r"
eval "$C"
eval $C
""",
    "printf": r"""printf -v NAME '%s-%03d' job 7
printf 'a: %s\n' 1 2 > c.yaml
gcloud ai custom-jobs create --display-name=$NAME --config=c.yaml
""",
    "pipe into stdin": r"""echo "a: ${PROJECT_ID}" | gcloud ai custom-jobs create --config=-
cat <<EOF | gcloud ai custom-jobs create --config=-
b: 1
EOF
""",
}
