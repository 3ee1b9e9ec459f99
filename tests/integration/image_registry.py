"""A registry with one image in it, on loopback: as much of the distribution API as a daemon's pull asks for."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"


def digest_of(content: bytes) -> str:
    """As registries write one."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _described(kind: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "size": len(content), "digest": digest_of(content)}


@contextmanager
def image_registry(tag: str) -> Iterator[tuple[str, str]]:
    """Serve one image under this tag; gives its name without the tag, and its digest."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("empty"))
    layer = gzip.compress(archive.getvalue())
    root = {"type": "layers", "diff_ids": [digest_of(archive.getvalue())]}
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": root}).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _described(CONFIG, config),
            "layers": [_described(LAYER, layer)],
        }
    ).encode()
    kept = {digest_of(content): (kind, content) for kind, content in ((CONFIG, config), (LAYER, layer))}
    kept[tag] = kept[digest_of(manifest)] = (MANIFEST, manifest)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, content = kept.get(self.path.rpartition("/")[2], ("application/json", b"{}"))
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.send_header("docker-content-digest", digest_of(content))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield f"localhost:{server.server_port}/mirror/python", digest_of(manifest)
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
