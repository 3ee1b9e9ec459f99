"""All targets by name."""

from __future__ import annotations

from tests.fuzz import (
    batch_target,
    by_hand_target,
    codecs_target,
    frames_target,
    messages_target,
    metadata_target,
    parked_target,
    session_target,
)

TARGETS = {
    module.TARGET.name: module.TARGET
    for module in (
        frames_target,
        messages_target,
        metadata_target,
        batch_target,
        by_hand_target,
        codecs_target,
        parked_target,
        session_target,
    )
}
