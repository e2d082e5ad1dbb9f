"""Object stores to which no connection can be made: the server and the reason are named."""

from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from botocore.exceptions import EndpointConnectionError

from headrace.protocols.causes import cause_of
from headrace.targets.s3 import S3, S3Options
from headrace.targets.upload import try_writing


def cause(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> str:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with pytest.raises(EndpointConnectionError) as error:
        try_writing("s3://bucket/a")
    return cause_of(error.value)


def test_a_server_that_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message was botocore's: the URL of an object, and no reason."""
    with socket.socket() as bound:  # it does not listen
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        assert cause(monkeypatch, url) == f"{url} cannot be reached: Connection refused"


def test_a_bundle_of_certificates_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's message was "No such file or directory", without the name."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    options = {"endpoint": "https://127.0.0.1:1", "bucket": "bucket"}
    target = S3("objects", S3Options.model_validate(options))
    (problem,) = target.check(frozenset())
    assert "https://127.0.0.1:1 cannot be reached: Connection refused" in problem.what
    monkeypatch.setenv("AWS_CA_BUNDLE", "/nowhere/ca.pem")
    (problem,) = target.check(frozenset())
    assert problem.what == "AWS_CA_BUNDLE names no file: /nowhere/ca.pem"


class Listing(BaseHTTPRequestHandler):
    """Answers a request for the list of a bucket."""

    answer: ClassVar[tuple[int, str]] = (200, "")

    def do_GET(self) -> None:
        status, code = self.answer
        body = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize(
    ("status", "code", "remedy"),
    [
        (403, "AccessDenied", None),  # objects may be read and written all the same
        (403, "RequestTimeTooSkewed", "set the clock"),
        (400, "AuthorizationHeaderMalformed", "look at region"),
        (400, "ExpiredToken", "AWS_SESSION_TOKEN"),
        (503, "SlowDown", None),  # jobs wait for a busy server
        (404, "NoSuchBucket", "make the bucket"),
    ],
)
def test_a_server_is_asked_before_a_run(
    monkeypatch: pytest.MonkeyPatch, status: int, code: str, remedy: str | None
) -> None:
    """Only the first trial showed it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setattr(Listing, "answer", (status, code))
    with ThreadingHTTPServer(("127.0.0.1", 0), Listing) as server:
        threading.Thread(target=server.serve_forever).start()
        endpoint = f"http://127.0.0.1:{server.server_port}/"
        target = S3("objects", S3Options.model_validate({"endpoint": endpoint, "bucket": "bucket"}))
        try:
            problems = target.check(frozenset())
        finally:
            server.shutdown()
    if remedy is None:
        assert problems == []
        return
    (problem,) = problems
    assert code in problem.what and remedy in problem.remedy


def test_credentials_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They were asked for as variables, although clients find them."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    keys = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    options = {"endpoint": "http://127.0.0.1:1", "bucket": "bucket"}
    target = S3("objects", S3Options.model_validate(options))
    (problem,) = target.check(frozenset())
    assert "no credentials: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set" in problem.what
    keys.write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
    (problem,) = target.check(frozenset())
    assert "cannot be reached: Connection refused" in problem.what
