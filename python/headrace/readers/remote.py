"""Storage that is reached by URL, through fsspec: `hdfs://` by hdfs-native (no Java), `s3://` by s3fs, `root://` by fsspec-xrootd.

What a protocol needs to know besides the URL comes from the environment: `AWS_ENDPOINT_URL_S3`, `AWS_ACCESS_KEY_ID` and
`AWS_SECRET_ACCESS_KEY` as for every program that speaks S3, and `HEADRACE_URL_PATIENCE_S`, how long to wait for an answer.
"""

from __future__ import annotations

import os
from typing import Any

from headrace.errors import HeadraceError

PATIENCE = "HEADRACE_URL_PATIENCE_S"
"""Environment variable: seconds after which a request that the server does not answer is given up."""
_PATIENCE_S = 60.0
_CONNECT_PATIENCE_S = 5.0


def patience_s() -> float:
    """How long a request may take."""
    return float(os.environ.get(PATIENCE, _PATIENCE_S))


def options_of(url: str) -> dict[str, Any]:
    """fsspec's options for a URL's protocol."""
    if not url.startswith("s3://"):
        return {}
    wait_s = patience_s()
    return {
        "endpoint_url": os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"),
        "client_kwargs": {"region_name": os.environ.get("AWS_REGION", "us-east-1")},
        "config_kwargs": {
            "connect_timeout": min(_CONNECT_PATIENCE_S, wait_s),
            "read_timeout": wait_s,
            "retries": {"max_attempts": 1},
            # Checksums that only Amazon's own servers know are not asked for.
            "request_checksum_calculation": "when_required",
            "response_checksum_validation": "when_required",
        },
        "use_listings_cache": False,
    }


def filesystem_of(url: str) -> tuple[Any, str]:
    """(file system, path in it) of a URL. Raises HeadraceError when its protocol is not installed."""
    import fsspec

    try:
        return fsspec.url_to_fs(url, **options_of(url))
    except (ImportError, ValueError) as error:
        raise HeadraceError(f"{url}: {error}") from error
