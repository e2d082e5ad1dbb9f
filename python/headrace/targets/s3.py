"""Target `s3`: objects in a bucket, read by URL.

Measured: a server started for the study (system/servers/s3.py), or with `endpoint` an existing one,
with credentials from the environment (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, model_validator
from typing_extensions import override

from headrace.errors import HeadraceError, Problem
from headrace.protocols import PATIENCE
from headrace.protocols.repeats import REPEAT
from headrace.refusals import form
from headrace.site import Site
from headrace.system.cluster import Node
from headrace.system.servers import Server
from headrace.system.servers.s3 import S3Gateway
from headrace.targets import Held, Location, ModelledStorage, TargetContext, TargetOptions
from headrace.targets.exports import Export, ServedOptions
from headrace.targets.remote_url import put, remove, try_writing, why_not_reached
from headrace.targets.served import ServedTarget
from headrace.units import Seconds

_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")

_OTHER_CREDENTIALS = (
    "AWS_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
)
"""Variables by which clients of S3 find credentials without the two keys."""

_HINTS = (
    ("certificate is not valid for", "name the endpoint as its certificate does"),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "name the certificate of the server's authority: AWS_CA_BUNDLE=FILE.pem",
    ),
    ("WRONG_VERSION_NUMBER", "it does not speak TLS: an endpoint with http://"),
    ("cannot be reached", "look at endpoint"),
    ("does not answer", "look at endpoint: another kind of server may be there"),
    ("RequestTimeTooSkewed", "set the clock of this machine, or that of the server"),
    ("NoSuchBucket", "make the bucket, or correct bucket"),
    ("config profile", "correct AWS_PROFILE"),
    ("SignatureDoesNotMatch", "look at AWS_SECRET_ACCESS_KEY and region"),
    ("AuthorizationHeaderMalformed", "look at region"),
    ("ExpiredToken", "get new temporary credentials (AWS_SESSION_TOKEN)"),
)
"""Parts of a client's message, and what to do; the first that is found."""


def _hint_for(said: str) -> str:
    every = "look at endpoint, bucket, region, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    return next((text for part, text in _HINTS if part in said), every)


def _credentials_elsewhere() -> bool:
    """Return whether clients may find credentials in other places than two variables."""
    files = [
        os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
        os.environ.get("AWS_CONFIG_FILE", "~/.aws/config"),
    ]
    return any(os.environ.get(name) for name in _OTHER_CREDENTIALS) or any(
        os.path.exists(os.path.expanduser(file))  # noqa: PTH110, PTH111 - a home may be unknown
        for file in files
    )


class S3Options(ServedOptions):
    """`[target.NAME]` with `kind = "s3"`."""

    export: Export = Field(
        default_factory=lambda: Export.model_validate({}), description="what the server stores on"
    )
    endpoint: str | None = Field(
        None,
        pattern=form(r"^https?://[^/]+/?$", "http://HOST:PORT or https://HOST:PORT"),
        description=(
            "URL of a server that is there already, such as https://s3.example.org; none is "
            "started then"
        ),
    )
    bucket: str = Field(
        "headrace", min_length=3, description="with `endpoint`: a bucket that may be written to"
    )
    region: str = Field("us-east-1", description="what the server takes for its region")
    patience: Seconds | None = Field(
        None,
        gt=0,
        description=(
            "silence after which the client sends a request again (60 s); it fails after 5 "
            "attempts without an answer"
        ),
    )

    repeat: Seconds | None = Field(
        None,
        ge=0,
        le=600,
        description=(
            "how long a request is repeated that a busy server refuses with HTTP status 429, 500, "
            "502, 503 (SlowDown), 504 or 509 (60 s)"
        ),
    )

    @model_validator(mode="after")
    def _one_name(self) -> S3Options:
        if self.address is not None:
            raise ValueError("a server that is there is named by its endpoint")
        if self.endpoint is not None and "bucket" not in self.model_fields_set:
            raise ValueError("with an endpoint, name a bucket that may be written to")
        return self


class S3(ServedTarget):
    """A bucket."""

    kind = "s3"
    label: ClassVar[str] = "S3"
    Options: ClassVar[type[TargetOptions]] = S3Options
    service_kind = "s3"
    url_prefix: ClassVar[str] = "s3://"
    server_kinds: ClassVar[tuple[type[Server], ...]] = (S3Gateway,)

    options: S3Options

    def __init__(self, name: str, options: Any) -> None:
        super().__init__(name, options)
        self._environment: dict[str, str] = {}
        self._uploads_from: Node | None = None

    @override
    def needs_cluster(self) -> bool:
        return self.options.endpoint is None

    @override
    def server_count(self, site: Site | None) -> int:
        """Always one endpoint, whatever the site has."""
        return 1

    @override
    def check(self, forced_devices: frozenset[str]) -> list[Problem]:
        if self.needs_cluster():
            return super().check(forced_devices)
        return self.check_storage()

    @override
    def check_storage(self) -> list[Problem]:
        if self.needs_cluster():
            return []
        lacking = [key for key in _KEYS if not os.environ.get(key)]
        if lacking and not _credentials_elsewhere():
            what = (
                f"no credentials: {' and '.join(lacking)} "
                f"{'is' if len(lacking) == 1 else 'are'} not set"
            )
            return [
                Problem(
                    what, f"target {self.name}", f"export {'=… '.join(lacking)}=…, or AWS_PROFILE"
                )
            ]
        bundle = os.environ.get("AWS_CA_BUNDLE", "")
        if bundle and not Path(bundle).exists():
            return [
                Problem(
                    f"AWS_CA_BUNDLE names no file: {bundle}",
                    f"target {self.name}",
                    "name the certificate of the server's authority by it, or unset it",
                )
            ]
        why_not = why_not_reached(self.url, self._environment_of_options())
        return [Problem(why_not, f"target {self.name}", _hint_for(why_not))] if why_not else []

    def _environment_of_options(self) -> dict[str, str]:
        """Return the environment of a client by the options."""
        options = self.options
        found = {"AWS_REGION": options.region}
        if options.patience is not None:
            found[PATIENCE] = f"{options.patience:g}"
        if options.repeat is not None:
            found[REPEAT] = f"{options.repeat:g}"
        if options.endpoint is not None:
            found["AWS_ENDPOINT_URL_S3"] = options.endpoint.rstrip("/")
        return found

    @property
    def url(self) -> str:
        """URL of the bucket."""
        return f"s3://{self.options.bucket}"

    @override
    def bring_up(self, context: TargetContext) -> Location:
        options = self.options
        self._environment = self._environment_of_options()
        if options.endpoint is not None:
            self._uploads_from = None
            self._try(context)
            return Location(
                directory=None,
                url=self.url,
                network=True,
                environment=self._environment,
                description={"endpoint": options.endpoint, "bucket": options.bucket},
            )
        cluster = self.cluster(context)
        storage = self.storage(context)
        node = cluster[self.server_node(0)]
        server = S3Gateway(node.name, node)
        self.started(server, context, storage)
        # The server treats a folder in its root as a bucket.
        (storage / options.bucket).mkdir()
        self._environment |= {
            "AWS_ENDPOINT_URL_S3": server.endpoint,
            "AWS_ACCESS_KEY_ID": server.access_key,
            "AWS_SECRET_ACCESS_KEY": server.secret_key,
        }
        self._uploads_from = self.clients(context)[0]
        self._try(context)
        devices, media = self.media_facts([storage])
        return Location(
            directory=None,
            url=self.url,
            device_names=devices,
            own_device=bool(self._media),
            network=True,
            interfaces=cluster.interfaces,
            servers={server.name: server},
            cluster=cluster,
            environment=self._environment,
            description={
                **media,
                "endpoint": server.endpoint,
                "bucket": options.bucket,
                "server": {"program": "versitygw"},
                "cluster": cluster.as_dict(),
            },
        )

    def _try(self, context: TargetContext) -> None:
        try:
            try_writing(self.url, self._uploads_from, context, self._environment)
        except HeadraceError as error:
            hint = None if self.needs_cluster() else _hint_for(error.message)
            raise HeadraceError(error.message, hint=hint) from error

    @override
    def upload(
        self, files: Sequence[Path], folder: str, context: TargetContext, say: Callable[[str], None]
    ) -> list[Held]:
        return put(
            files, f"{self.url}/{folder}", self._uploads_from, context, self._environment, say
        )

    @override
    def clear(self, folder: str, context: TargetContext) -> None:
        remove(f"{self.url}/{folder}", self._uploads_from, context, self._environment)

    @override
    def model(self, site: Site | None) -> ModelledStorage:
        """Raise HeadraceError: object storage has no model."""
        raise HeadraceError(f"target {self.name}: object storage has no model; measure it")
