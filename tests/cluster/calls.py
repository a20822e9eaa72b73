"""``python -m tests.cluster.calls URL AUTHORITY [CERTIFICATE KEY]``: exit 0 when the server hears a client with these."""

import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path


def is_heard(url: str, authority: Path, certificate: Path | None = None, key: Path | None = None) -> bool:
    """Whether a server of that authority hears a client with this certificate, or without any; what it answers is the same."""
    context = ssl.create_default_context(cafile=authority)
    if certificate is not None:
        context.load_cert_chain(certificate, key)
    try:
        urllib.request.urlopen(url, data=b"{}", context=context, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


if __name__ == "__main__":
    address, *files = sys.argv[1:]
    sys.exit(0 if is_heard(address, *map(Path, files)) else 1)
