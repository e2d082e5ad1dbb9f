"""Storage that is reached by URL, through fsspec.

`hdfs://` uses hdfs-native (no Java), `s3://` uses s3fs, `root://` uses fsspec-xrootd. Further
settings of a protocol come from the environment: `AWS_ENDPOINT_URL_S3`, `AWS_ACCESS_KEY_ID` and
`AWS_SECRET_ACCESS_KEY`, as for every S3 client, and `HEADRACE_URL_PATIENCE_S`, the time to wait for
an answer.
"""

from __future__ import annotations

import os
from typing import Any

from headrace.errors import HeadraceError

PATIENCE = "HEADRACE_URL_PATIENCE_S"
"""Environment variable: timeout of a request, in seconds."""
_PATIENCE_S = 60.0
_CONNECT_PATIENCE_S = 5.0


def patience_s() -> float:
    """Return the timeout of a request."""
    return float(os.environ.get(PATIENCE, _PATIENCE_S))


def options_of(url: str) -> dict[str, Any]:
    """Return fsspec's options for a URL's protocol."""
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
            # Do not send checksums that only Amazon's own servers support.
            "request_checksum_calculation": "when_required",
            "response_checksum_validation": "when_required",
        },
        "use_listings_cache": False,
    }


def filesystem_of(url: str) -> tuple[Any, str]:
    """Return (file system, path in it) of a URL.

    Raises HeadraceError when its protocol is not installed.
    """
    import fsspec

    try:
        return fsspec.url_to_fs(url, **options_of(url))
    except (ImportError, ValueError) as error:
        raise HeadraceError(f"{url}: {error}") from error
