"""Target `s3`: a real server, data sets put on it and read from it, verified.

Credentials and addresses that are wrong.
"""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headrace.datasets import DatasetSpec
from headrace.datasets.store import materialise
from headrace.errors import HeadraceError
from headrace.protocols import filesystem_of
from headrace.system.cluster import call_inside
from headrace.system.own_programs import own_program
from headrace.system.owned import OURS
from headrace.system.waiting import wait_until
from headrace.targets import TargetContext
from headrace.targets.s3 import S3Options
from headrace.workloads import JobInput
from headrace.workloads.scan import Scan, ScanOptions
from ports import free_port
from served_targets import assert_gone, fault, made, standing

pytestmark = pytest.mark.usefixtures("needs_root")

SPEC = DatasetSpec.model_validate({"shape": "bench", "events": 2000, "files": 2})


def test_what_is_put_there_is_read_and_verified(
    context: TargetContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = materialise(SPEC, tmp_path / "cache")
    with standing(made("s3"), context) as (location, within):
        assert location.url == "s3://headrace"
        assert location.directory is None
        assert location.cluster is not None
        for key, value in location.environment.items():
            monkeypatch.setenv(key, value)
        held = _upload(location, within, files)
        assert [url.rpartition("/")[2] for url in held] == [file.name for file in files]
        assert _upload(location, within, files) == held, "what lies there whole stays"

        scan = Scan("scan", ScanOptions.model_validate({"data": SPEC.model_dump(), "verify": True}))
        node = location.cluster["node-0"]
        output = call_inside(
            node.namespace,
            lambda: scan.run(JobInput((held[0],), None, tmp_path, slot=0, slots=1, seed=0)),
        )
        assert output.events == 1000
        assert output.bytes_asked > 0
        assert output.read_wait_s > 0

        def damage() -> None:
            filesystem, path = filesystem_of(held[1])
            data = bytearray(filesystem.cat_file(path))
            data[-100] ^= 1
            filesystem.pipe_file(path, bytes(data))

        call_inside(node.namespace, damage)
        with pytest.raises(HeadraceError, match=r"checksum|damaged"):
            call_inside(
                node.namespace,
                lambda: scan.run(JobInput((held[1],), None, tmp_path, slot=0, slots=1, seed=0)),
            )
        assert _upload(location, within, files) == held, "what is damaged is put there again"
        again = call_inside(
            node.namespace,
            lambda: scan.run(JobInput((held[1],), None, tmp_path, slot=0, slots=1, seed=0)),
        )
        assert again.events == 1000
    assert_gone(location, context)


def _upload(location: object, context: TargetContext, files: list[Path]) -> list[str]:
    from headrace.targets import Location
    from headrace.targets.remote_url import put

    assert isinstance(location, Location)
    assert location.cluster is not None
    node = location.cluster["node-0"]
    held = put(files, f"{location.url}/data", node, context, location.environment, lambda _: None)
    return [each.url for each in held]


def test_a_server_that_stalls_and_one_that_dies(context: TargetContext) -> None:
    with standing(made("s3", patience="2 s"), context) as (location, _):
        for kind in ("server-stalled", "server-killed"):
            struck = fault(kind, duration="1 s")
            assert struck.check() == []
            struck.begin(location, context.journal)
            struck.inject(location, context.journal)
            time.sleep(1.0)
            struck.lift()
            struck.lift()
            struck.end(location, context.journal)
            assert struck.fired == 1
            assert struck.seen["server"] == "store-0"
            assert struck.seen["stall_s"] > 0.5, kind
            assert struck.seen["recovered_s"] is not None
            assert struck.seen["lost_writes"] == 0


def test_who_is_refused(context: TargetContext, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(key, raising=False)
    there = {"endpoint": "http://127.0.0.1:9", "bucket": "data", "patience": "1 s"}
    (problem,) = made("s3", **there).check(frozenset())
    assert "AWS_ACCESS_KEY_ID" in problem.what
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    target = made("s3", **there)
    (problem,) = target.check(frozenset())
    assert "http://127.0.0.1:9 cannot be reached: Connection refused" in problem.what
    assert problem.fatal and problem.remedy == "look at endpoint"
    with pytest.raises(HeadraceError, match=r"(?i)connect") as caught:
        target.prepare(context)
    assert "endpoint" in (caught.value.hint or "")

    with standing(made("s3"), context) as (location, within):
        from headrace.targets.remote_url import try_writing

        assert location.cluster is not None
        node = location.cluster["node-0"]
        wrong = {**location.environment, "AWS_SECRET_ACCESS_KEY": "wrong"}
        with pytest.raises(HeadraceError, match=r"(?i)signature"):
            try_writing("s3://headrace", node, within, wrong)
        with pytest.raises(HeadraceError, match=r"(?i)bucket"):
            try_writing("s3://no-such-bucket", node, within, location.environment)

        def asked(bucket: str, secret: str) -> list[tuple[str, str]]:
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", location.environment["AWS_ACCESS_KEY_ID"])
            monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
            endpoint = location.environment["AWS_ENDPOINT_URL_S3"]
            there = made("s3", endpoint=f"{endpoint}/", bucket=bucket)
            found = call_inside(node.namespace, there.check_storage)
            return [(each.what, each.remedy) for each in found]

        secret = location.environment["AWS_SECRET_ACCESS_KEY"]
        assert asked("headrace", secret) == []
        ((what, remedy),) = asked("headrace", "wrong")
        assert "SignatureDoesNotMatch" in what and "AWS_SECRET_ACCESS_KEY" in remedy
        ((what, remedy),) = asked("no-such-bucket", secret)
        assert "NoSuchBucket" in what and "make the bucket" in remedy


def test_a_certificate_that_no_authority_signed(
    context: TargetContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made_by = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*made_by, *files], check=True, capture_output=True)
    secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    secure.load_cert_chain(certificate, key)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.socket = secure.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        endpoint = f"https://127.0.0.1:{server.server_port}"
        with pytest.raises(HeadraceError, match="CERTIFICATE_VERIFY_FAILED") as caught:
            made("s3", endpoint=endpoint, bucket="data", patience="5 s").prepare(context)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert "AWS_CA_BUNDLE" in (caught.value.hint or "")


def test_options() -> None:
    with pytest.raises(ValueError, match="name a bucket"):
        S3Options.model_validate({"endpoint": "https://s3.example.org"})
    with pytest.raises(ValueError, match="endpoint"):
        S3Options.model_validate({"address": "s3.example.org"})


WRITES = """
headrace = 1
title = "killed while it writes"
[target.store]
kind = "s3"
endpoint = "{endpoint}"
bucket = "bucket"
[workload.w]
kind = "sequential"
mode = "write"
file_size = "4 GiB"
[plan]
repeats = {{ min = 1 }}
[run]
shortest = 0
"""


def test_what_a_killed_run_wrote_to_a_store_of_somebody_else_is_undone(tmp_path: Path) -> None:
    """Its folder and the parts of its upload stayed in the bucket, and undo said nothing of it."""
    root = tmp_path / "root"
    theirs = root / "bucket" / OURS / "note.txt"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("somebody else's")
    port = free_port()
    environment = {
        **os.environ,
        "HEADRACE_JOURNAL_DIR": str(tmp_path / "journal"),
        "AWS_ACCESS_KEY_ID": "admin",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "ROOT_ACCESS_KEY": "admin",
        "ROOT_SECRET_KEY": "secret",
    }
    gateway = [str(own_program("versitygw")), "--port", f"127.0.0.1:{port}", "--quiet", "posix"]
    study = tmp_path / "study.toml"
    study.write_text(WRITES.format(endpoint=f"http://127.0.0.1:{port}"))
    headrace = [sys.executable, "-c", "from headrace.cli import main; main()"]

    def written() -> list[Path]:
        return [each for each in (root / "bucket").rglob("*") if each.is_file() and each != theirs]

    def jobs_write() -> bool:
        """Whether an object is there that is not the one that tries writing."""
        entries = [each for each in (tmp_path / "journal").rglob("*") if each.is_file()]
        return any(b"/jobs-" in each.read_bytes() for each in entries) and bool(written())

    with subprocess.Popen([*gateway, str(root)], env=environment) as server:
        try:
            command = [*headrace, "run", str(study), "--results", str(tmp_path / "results")]
            with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as run:
                assert wait_until(jobs_write, 60.0, 0.1), "nothing was written"
                run.kill()
            undo = subprocess.run(
                [*headrace, "undo"], env=environment, capture_output=True, text=True, check=False
            )
            assert undo.returncode == 0, undo.stdout + undo.stderr
            assert f"folder s3://bucket/{OURS}/jobs-" in " ".join(undo.stdout.split())
            assert written() == []
            assert theirs.read_text() == "somebody else's"
        finally:
            server.kill()
