"""How a webhook on this machine is registered with an API server: as the chart does, but by URL and for all pods."""

from typing import Any

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


def webhook_configuration(port: int, ca_bundle: str) -> dict[str, Any]:
    """The configuration object. :param ca_bundle: authority of its certificate, base64 of PEM."""
    watched = (("CREATE", "pods"), ("UPDATE", "pods/ephemeralcontainers"))
    webhook = {
        "name": "admission.hami.io",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/webhook", "caBundle": ca_bundle},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": [resource]}
            for operation, resource in watched
        ],
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "reinvocationPolicy": "IfNeeded",
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "hami"},
        "webhooks": [webhook],
    }
