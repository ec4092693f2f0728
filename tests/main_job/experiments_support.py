"""What several tests share with test_experiments."""

from __future__ import annotations

BEGIN = """
import sys
import google.oauth2.credentials
from google.cloud import aiplatform, storage

endpoint, token, script = sys.argv[1:]
credentials = google.oauth2.credentials.Credentials(token)
def init(**more):
    aiplatform.init(project="sdk-project", location="us-central1", api_transport="rest",
                    api_endpoint=endpoint, credentials=credentials, **more)
init()
"""
