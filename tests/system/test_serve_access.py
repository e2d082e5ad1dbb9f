"""Who may see the pages of `headrace serve`, and what is refused before it starts."""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from command_server import run_command
from served_pages import Served, serving
from synthetic_records import Truth, plan_of, write_results

CELLS = [{"target": "disk", "workload": "higgs", "slots": slots} for slots in (1, 2, 4)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("served")
    write_results(root / "one", plan_of(CELLS, 3), Truth(), title="One")
    return root


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    """One server for the tests that only ask it."""
    with serving(folder) as served:
        yield served


@pytest.fixture(scope="module")
def served_within(folder: Path) -> Iterator[Served]:
    """A server of a folder beside which there is more."""
    with serving(folder / "one") as served:
        yield served


def refused(folder: Path, *options: object) -> tuple[int, str]:
    ended = run_command(["serve", str(folder), *map(str, options)], folder, None, 60)
    assert "Traceback" not in ended.stderr and not ended.stdout
    return ended.returncode, ended.stderr


def test_only_the_link_lets_in(folder: Path) -> None:
    with serving(folder) as served:
        assert served.get("/").status_code == 200
        stranger = httpx.get(f"{served.origin}/", trust_env=False)
        assert stranger.status_code == 403 and "needs the token" in stranger.text
        wrong = httpx.get(f"{served.origin}/?token=guess", trust_env=False)
        assert wrong.status_code == 403 and "token in this link is wrong" in wrong.text
        assert "One" not in stranger.text + wrong.text
        assert not wrong.cookies
        # Each start makes a new token, and the old cookie opens nothing.
        old = dict(served.client.cookies)
        token = served.link
    with serving(folder) as served:
        assert served.link.partition("token=")[2] != token.partition("token=")[2]
        name = f"headrace-{served.origin.rpartition(':')[2]}"
        again = httpx.get(
            f"{served.origin}/", cookies={name: next(iter(old.values()))}, trust_env=False
        )
        assert again.status_code == 403


def test_the_token_leaves_the_address(served: Served) -> None:
    answer = httpx.get(served.link.replace("/?", "/compare?a=one&"), trust_env=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/compare?a=one"
    assert "HttpOnly" in answer.headers["set-cookie"]


def test_another_name_for_this_address_is_refused(served: Served) -> None:
    """DNS rebinding: a page of another site makes its own name resolve to 127.0.0.1."""
    port = served.origin.rpartition(":")[2]
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "["):
        answer = served.get("/", headers={"Host": host})
        assert answer.status_code == 403, host
    assert served.get("/", headers={"Host": f"localhost:{port}"}).status_code == 200


def test_every_page_may_ask_this_server_alone(served: Served) -> None:
    for path in ("/", "/results/one/", "/progress/one", "/nothing", "/assets/serve.js"):
        headers = served.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'")
        assert "'unsafe-inline'" not in policy.partition("script-src")[2].partition(";")[0]
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "path",
    [
        "/results/../../etc/",
        "/results/%2e%2e/",
        "/results/%2e%2e%2f%2e%2e%2fetc/",
        "/results/one/trials/%2e%2e/",
        "/results/one/trials/%2e%2e/results.json",
        "/progress/%2e%2e",
        "/results/%00/",
        "/compare?a=../one&b=one",
    ],
)
def test_nothing_outside_the_folder_is_shown(served_within: Served, path: str) -> None:
    answer = served_within.get(path)
    assert answer.status_code == 404, answer.text
    assert "Traceback" not in answer.text


def test_files_of_a_trial_are_downloads(served: Served, folder: Path) -> None:
    trial = next((folder / "one" / "trials").iterdir())
    shown = served.get(f"/results/one/trials/{trial.name}/")
    assert shown.status_code == 200 and "trial.json" in shown.text
    file = served.get(f"/results/one/trials/{trial.name}/trial.json")
    assert file.content == (trial / "trial.json").read_bytes()
    assert file.headers["content-disposition"].startswith("attachment")
    outside = served.get(f"/results/one/trials/{trial.name}/%2e%2e/%2e%2e/results.json")
    assert outside.status_code == 404


def test_a_port_in_use_is_said_before_anything_starts(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = refused(folder, "--port", port)
    assert code == 2
    assert f"port {port} of 127.0.0.1 is in use" in said and "--port 0" in said


def test_other_machines_need_a_password_and_tls(folder: Path, tmp_path: Path) -> None:
    code, said = refused(folder, "--address", "0.0.0.0")
    assert code == 4
    assert "--password-file, --certificate, --key" in said and "ssh -L" in said
    password = tmp_path / "password"
    password.write_text("correct horse")
    password.chmod(0o644)
    code, said = refused(folder, "--password-file", password)
    assert code == 4 and f"chmod 600 {password}" in said
    password.chmod(0o600)
    code, said = refused(folder, "--address", "0.0.0.0", "--password-file", password)
    assert code == 4 and "--certificate" in said and "--password-file," not in said
    password.write_text("short")
    assert "at least 8" in refused(folder, "--password-file", password)[1]
    for wrong in (b"\0" * 12, b"\xff" * 12, b"correct\nhorse"):
        password.write_bytes(wrong)
        code, said = refused(folder, "--password-file", password)
        assert code == 2 and "not one line of text" in said
    os.truncate(password, 1 << 40)  # not read to its end
    code, said = refused(folder, "--password-file", password)
    assert code == 2 and "longer than 1024 bytes" in said


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--port", 70000), "0 to 65535"),
        (("--address", "no.such.host.invalid"), "--address no.such.host.invalid"),
        (("--certificate", "c.pem"), "go together"),
        (("--certificate", "c.pem", "--key", "k.pem"), "c.pem: not found"),
        (("--password-file", "none"), "none: No such file"),
    ],
)
def test_wrong_options(folder: Path, options: tuple[object, ...], text: str) -> None:
    code, said = refused(folder, *options)
    assert code in (2, 4) and text in said


def test_a_folder_that_is_none(folder: Path) -> None:
    ended = run_command(["serve", str(folder / "none")], folder, None, 60)
    assert ended.returncode == 2 and "not found" in ended.stderr


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and cluster.example, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("cluster.example"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name)
        .public_key(key.public_key()).serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    file, secret = folder / "certificate.pem", folder / "key.pem"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return file, secret


def test_password_and_tls(folder: Path, tmp_path: Path) -> None:
    file, key = certificate(tmp_path)
    password = tmp_path / "password"
    password.write_text("correct horse\n")
    password.chmod(0o600)
    options = ("--address", "0.0.0.0", "--password-file", password, "--certificate", file)
    with serving(folder, *options, "--key", key) as served:
        assert served.link.startswith("https://0.0.0.0:") and "token" not in served.link
        at = served.origin.replace("0.0.0.0", "127.0.0.1")
        client = served.client
        assert client.get(f"{at}/").headers["location"] == "/login"
        wrong = client.post(f"{at}/login", data={"password": "wrong"})
        assert wrong.status_code == 403 and "password is wrong" in wrong.text
        other = {"Origin": "https://evil.example"}
        sent = client.post(f"{at}/login", data={"password": "correct horse"}, headers=other)
        assert sent.status_code == 403 and not sent.cookies
        right = client.post(f"{at}/login", data={"password": "correct horse"})
        assert right.status_code == 303 and "Secure" in right.headers["set-cookie"]
        assert "One" in client.get(f"{at}/").text
        port = at.rpartition(":")[2]
        named = client.get(f"{at}/", headers={"Host": f"cluster.example:{port}"})
        assert named.status_code == 200
        assert re.search("One", named.text)
        # 0.0.0.0 is the address of no machine: what others open has a name of the certificate.
        _, said = served.end()
        assert f"from other machines: https://cluster.example:{port}/" in said


def test_it_ends_on_a_signal_with_an_open_stream(folder: Path) -> None:
    with serving(folder, anew=True) as served:
        url = f"{served.origin}/events/results"
        with served.client.stream("GET", url) as stream:
            first = next(stream.iter_lines())
            assert first.startswith("data: ") and "One" in first
            code, said = served.end()
        assert code == 0 and "Traceback" not in said, said


def _save(served: Served, job: str) -> httpx.Response:
    page = served.get("/what-if?ask=1").text
    found = re.search(r'name="form_token" value="([^"]+)"', page)
    assert found is not None
    fields = {"form_token": found[1], "name": "mine", "job": job}
    return served.client.post(f"{served.origin}/what-if/save", data=fields)


def test_a_question_that_is_refused_leaves_no_file(tmp_path: Path) -> None:
    """Its name would be refused the next time."""
    with serving(tmp_path) as served:
        answer = _save(served, "file/none.toml")
        assert answer.status_code == 404 and "no such job" in answer.text
        assert not (tmp_path / "mine.toml").exists()


def test_a_folder_that_takes_no_file_is_not_called_changed() -> None:
    """Nobody may make a file in /sys, not even root."""
    with serving(Path("/sys/kernel/mm")) as served:
        answer = _save(served, "builtin/scan")
        assert answer.status_code == 409 and "mine.toml" in answer.text
        assert "changed while it was read" not in answer.text
        assert "may read and write" in answer.text
