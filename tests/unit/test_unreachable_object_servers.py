"""Object stores to which no connection can be made: the server and the reason are named."""

from __future__ import annotations

import socket

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
    assert target.check(frozenset()) == []
    monkeypatch.setenv("AWS_CA_BUNDLE", "/nowhere/ca.pem")
    (problem,) = target.check(frozenset())
    assert problem.what == "AWS_CA_BUNDLE names no file: /nowhere/ca.pem"
