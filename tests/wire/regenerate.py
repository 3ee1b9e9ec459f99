"""Writes pulsar_pb2.py and .pyi from proxy/wire/pulsar.proto: `python -m tests.wire.regenerate` at the root.

It lives with the tests since it needs protoc, which only the dev dependencies bring, and since a test holds the
committed files against what it generates.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from grpc_tools import protoc  # type: ignore[import-untyped]  # the package has no types

ROOT = Path(__file__).parents[2]
SOURCE = "proxy/wire/pulsar.proto"
MODULE = "proxy/wire/pulsar_pb2.py"
STUB = "proxy/wire/pulsar_pb2.pyi"

# protoc's stubs leave `Mapping` without arguments where a message is accepted as a dictionary.
STUB_HEAD = '# mypy: disable-error-code="type-arg"\n'


def generate() -> dict[str, str]:
    """The generated files: path from the root to text."""
    with TemporaryDirectory() as directory:
        arguments = ["protoc", f"-I{ROOT}", f"--python_out={directory}", f"--pyi_out={directory}", SOURCE]
        if protoc.main(arguments):
            sys.exit(f"protoc refused {SOURCE}")
        files = sorted(path for path in Path(directory).rglob("*") if path.is_file())
        texts = {path.relative_to(directory).as_posix(): path.read_text() for path in files}
    texts[STUB] = STUB_HEAD + texts[STUB]
    return texts


if __name__ == "__main__":
    for name, text in generate().items():
        (ROOT / name).write_text(text)
