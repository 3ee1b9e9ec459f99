"""Snapshots as JSON.

pydantic's Rust serialiser writes dataclasses as they are, without a schema for each: a tenth of the time of
`dataclasses.asdict` and `json`, which matters because a snapshot may list thousands of hashes. It still runs in a
worker thread, for the loop of this process carries messages.
"""

from __future__ import annotations

from typing import Any

from fastapi import Response
from fastapi.concurrency import run_in_threadpool
from pydantic_core import to_json


async def snapshot_response(snapshot: Any) -> Response:
    """Write a frozen snapshot as a JSON body."""
    return Response(await run_in_threadpool(to_json, snapshot), media_type="application/json")
