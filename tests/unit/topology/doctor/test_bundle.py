"""No secret gets into a support bundle, wherever it is planted."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local_cluster.client.auth.security import ClientSecurity, Secret
from topology.deployment.deployment import ClusterView, Daemon, Deployment
from topology.deployment.state_dir import StateDir
from topology.doctor.bundle import LOG_BYTES_MAX, write_bundle
from topology.doctor.collect import secret_values
from topology.doctor.redact import redact_document, redact_text

SECRET = "hunter2-and-more"
PEM = f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----"


@pytest.mark.parametrize(
    "text",
    [
        f"password={SECRET}",
        f"sasl.password: '{SECRET}'",
        f'{{"ssl.keystore.password": "{SECRET}", "a": 1}}',
        f"org.apache.PlainLoginModule required username=u password={SECRET};",
        f"https://user:{SECRET}@host/path",
        f"client_secret = {SECRET}, next",
        PEM,
        PEM[:60],
    ],
)
def test_secrets_under_a_name_are_replaced(text: str) -> None:
    assert SECRET not in redact_text(text, ())
    assert SECRET not in json.dumps(redact_document({"x": [text]}, ()))


def test_what_is_no_secret_stays() -> None:
    document = {
        "password": {"file": "/run/secrets/x"},
        "key_password": None,
        "name": "orders",
        "sasl.password": SECRET,
        "nested": {"files": {"s.json": json.dumps({"password": {"env": "PW"}, "token": SECRET})}},
    }
    found = redact_document(document, ())
    assert found["password"] == {"file": "/run/secrets/x"}
    assert (found["key_password"], found["name"]) == (None, "orders")
    assert SECRET not in json.dumps(found)
    assert "PW" in found["nested"]["files"]["s.json"]
    assert redact_text("password: null, topic orders", ()) == "password: null, topic orders"


OTHER_LETTERS = "ABC12"
"""None of them is in `(hidden)`, so what replaces a secret is no part of one."""


@given(
    before=st.text(OTHER_LETTERS),
    secret=st.text(OTHER_LETTERS, min_size=4),
    after=st.text(OTHER_LETTERS),
)
def test_a_known_secret_is_replaced_anywhere(before: str, secret: str, after: str) -> None:
    assert secret not in redact_text(before + secret + after, [secret])


def test_a_bundle(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    state.create()
    password = tmp_path / "password"
    password.write_text(f"{SECRET}\n")
    place = Secret(file=str(password))
    security = ClientSecurity(
        protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="u", password=place
    )
    cluster = ClusterView(
        name="c",
        kind="external",
        datacenter="c",
        bootstrap="h:1",
        security=security,
        secrets=(place,),
    )
    daemon = Daemon(
        key="broker-c-1",
        role="broker",
        label="broker 1 of c",
        argv=("x",),
        files={"/s.json": json.dumps({"config": {"ssl.key.password": "other-secret"}})},
    )
    tokens = tmp_path / "tokens"
    tokens.write_text("first-token\nsecond-token\n")
    file = tmp_path / "topology.yaml"
    file.write_text("name: c\n# password: planted-comment\n")
    deployment = Deployment(
        name="c",
        topology_file=str(file),
        clusters=(cluster,),
        daemons=(daemon,),
        http_secrets=(Secret(file=str(tokens)),),
    )
    log = state.log_file("broker-c-1")
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("x" * LOG_BYTES_MAX + f"\nlogin of u with {SECRET} failed: second-token\n")
    out = tmp_path / "bundle.tar.gz"
    documents = {"status": {"problems": [f"password {SECRET} refused"]}}
    names = write_bundle(out, deployment, state, documents, secret_values(deployment))
    assert names == ["status.json", "deployment.json", "topology.yaml", "logs/broker-c-1.log"]
    assert out.stat().st_mode & 0o077 == 0
    with tarfile.open(out) as archive:
        files = [archive.extractfile(each) for each in archive.getmembers()]
        content = b"".join(file.read() for file in files if file is not None)
    for planted in (SECRET, "other-secret", "planted-comment", "second-token"):
        assert planted.encode() not in content
    assert b"login of u with (hidden) failed" in content
    assert str(password).encode() in content  # where it is, helps


def test_a_bundle_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    deployment = Deployment(name="c", topology_file="none.yaml")
    out = tmp_path / "missing" / "bundle.tar.gz"
    with pytest.raises(OSError, match="No such file"):
        write_bundle(out, deployment, StateDir(tmp_path), {}, ())
    assert list(tmp_path.iterdir()) == []
