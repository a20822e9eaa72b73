"""What may be secret is left out, and what helps stays."""

import pytest

from hami_core_py.decisions.redaction import HIDDEN, redacted, redacted_settings, redacted_text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("pull https://me:hunter2@registry/x failed", f"pull https://{HIDDEN}@registry/x failed"),
        ("password=hunter2 and more", f"{HIDDEN} and more"),
        ("Bearer abcdefghijkl", HIDDEN),
        ("-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\nrest", f"{HIDDEN}\nrest"),
        ("-----BEGIN EC PRIVATE KEY-----\ntorn", HIDDEN),
        (
            "0/3 nodes are available: 3 Insufficient acme.example/npu",
            "0/3 nodes are available: 3 Insufficient acme.example/npu",
        ),
        ("https://host:8443/path", "https://host:8443/path"),
    ],
)
def test_secrets_in_texts_are_left_out_and_the_rest_stays(text: str, left: str) -> None:
    assert redacted_text(text) == left


def test_secret_is_left_out_whole_but_for_its_name() -> None:
    secret = {
        "kind": "Secret",
        "metadata": {"name": "db", "namespace": "ml", "annotations": {"a": "b"}},
        "data": {"x": "eA=="},
    }
    assert redacted(secret) == {"kind": "Secret", "metadata": {"name": "db", "namespace": "ml"}}


def test_values_of_variables_are_left_out_and_their_sources_stay() -> None:
    source = {"secretKeyRef": {"name": "db", "key": "password"}}
    env = [{"name": "A", "value": "x"}, {"name": "B", "valueFrom": source}, {"name": "C", "value": ""}]
    assert redacted({"env": env})["env"] == [
        {"name": "A", "value": HIDDEN},
        {"name": "B", "valueFrom": source},
        {"name": "C", "value": ""},
    ]


def test_annotations_are_shown_only_when_known() -> None:
    annotations = {"hami.io/bind-node": "n1", "acme.example/record": "r", "vault.example/token": "x"}
    assert redacted({"annotations": annotations}, lambda key: key == "acme.example/record")["annotations"] == {
        "hami.io/bind-node": "n1",
        "acme.example/record": "r",
        "vault.example/token": HIDDEN,
    }


def test_settings_lose_what_their_names_call_a_secret() -> None:
    settings = {"a": {"apiToken": "x", "memory": 4}, "list": [{"password": "y"}], "tokenEnabled": True}
    assert redacted_settings(settings) == {
        "a": {"apiToken": HIDDEN, "memory": 4},
        "list": [{"password": HIDDEN}],
        "tokenEnabled": True,
    }


def test_argument_is_left_out_of_a_stranger_and_kept_of_ours() -> None:
    pod = {
        "containers": [
            {"command": ["serve", "hunter2"], "args": ["hunter2", "--key=hunter2"]},
            {"command": ["hami", "scheduler"], "args": ["--listen=127.0.0.1:9443"]},
        ]
    }
    assert redacted(pod)["containers"] == [
        {"command": ["serve", HIDDEN], "args": [HIDDEN, f"--key={HIDDEN}"]},
        {"command": ["hami", "scheduler"], "args": ["--listen=127.0.0.1:9443"]},
    ]


def test_object_that_is_given_stays_as_it_was() -> None:
    given = {"metadata": {"annotations": {"x": "y"}}, "env": [{"name": "A", "value": "x"}]}
    redacted(given)
    assert given == {"metadata": {"annotations": {"x": "y"}}, "env": [{"name": "A", "value": "x"}]}
