"""Services that the run asks."""

import os


def server(path=""):
    return os.environ["SERVER"] + path


def address(url, path):
    if url == "tls":
        return os.environ["TLS_SERVER"] + path
    if url == "plain":
        return server(path).replace("http:", "https:")
    return url or server(path)


def hub_file(trainer, repo="meta-llama/Llama-3.1-8B", name="config.json"):
    from huggingface_hub import hf_hub_download

    return hf_hub_download(repo, name, cache_dir=os.path.join(os.environ["WORK"], f"hub-{trainer.s.rank}"))


def hub_config(trainer, repo="acme/base-7b"):
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(
        repo, cache_dir=os.path.join(os.environ["WORK"], f"hub-{trainer.s.rank}")
    )


def bucket_read(trainer, bucket="train-data-eu", name="shards/train-00001.tar"):
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    client = storage.Client(
        project="ml-prod", credentials=AnonymousCredentials(), client_options={"api_endpoint": server()}
    )
    retry = storage.retry.DEFAULT_RETRY.with_timeout(1.0)
    return client.bucket(bucket).blob(name).download_as_bytes(retry=retry)


def bucket_write(trainer, bucket="train-artifacts", name="run/checkpoint-100/model.bin"):
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    client = storage.Client(
        project="ml-prod", credentials=AnonymousCredentials(), client_options={"api_endpoint": server()}
    )
    client.bucket(bucket).blob(name).upload_from_string(
        b"0" * 1000, retry=storage.retry.DEFAULT_RETRY.with_timeout(1.0)
    )


def bucket_get(trainer, bucket="train-data-eu"):
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

    client = storage.Client(
        project="ml-prod", credentials=AnonymousCredentials(), client_options={"api_endpoint": server()}
    )
    return client.get_bucket(bucket, retry=None)


def default_credentials(trainer):
    import google.auth

    os.environ["NO_GCE_CHECK"] = "true"
    os.environ.pop("GOOGLE_APPLICATION_CREDENTIALS", None)
    return google.auth.default()


def get(trainer, url=None, path="/", timeout=2.0, verify=True):
    import requests

    answer = requests.get(address(url, path), timeout=timeout, verify=verify)
    answer.raise_for_status()
    return answer


def fetch(trainer, url=None, path="/", timeout=2.0):
    import urllib.request

    return urllib.request.urlopen(address(url, path), timeout=timeout).read()


def httpx_get(trainer, url=None, path="/"):
    import httpx

    return httpx.get(address(url, path), timeout=2.0).raise_for_status()


def connect(trainer, host="10.20.0.14", port=6379, real=None):
    import socket

    return socket.create_connection((real or host, port), timeout=3)


def resolve(trainer, host="train-master-0.train-headless.ml.svc.cluster.local", port=23456):
    import socket

    return socket.getaddrinfo(host, port, proto=socket.IPPROTO_TCP)


def port_in_use(trainer):
    import socket

    taken = socket.create_server(("127.0.0.1", 0))
    return socket.create_server(("127.0.0.1", taken.getsockname()[1]))


def wandb_key(trainer):
    import wandb

    os.environ.pop("WANDB_API_KEY", None)
    os.environ.pop("WANDB_MODE", None)
    wandb.init(project="pretrain", dir=os.environ["WORK"], settings=wandb.Settings(silent=False))


def mlflow_run(trainer):
    os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "1"
    os.environ["MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR"] = "0"
    import mlflow

    mlflow.set_tracking_uri(server())
    mlflow.set_experiment("pretrain")


def database(trainer):
    import sqlalchemy

    engine = sqlalchemy.create_engine("sqlite:////mnt/studies/none/optuna.db")
    return engine.connect()


def load_key(trainer, name="service-account.json"):
    from google.oauth2 import service_account

    path = os.path.join(os.environ["WORK"], name)
    with open(path, "w") as file:
        file.write('{"type": "service_account", "project_id": "ml-prod"}')
    return service_account.Credentials.from_service_account_file(path)
