"""Several deployments in one namespace: each has its own group and topic, and leaves the others' topics alone."""

from __future__ import annotations

import json

from proxy.groups.bundles import DEPLOYMENT, deployment_of, is_deployment
from proxy.groups.encoding import decode_record, encode
from proxy.groups.memory import GroupMemory
from proxy.groups.streams import GroupId
from proxy.net.group.topic_name import TOPIC_PREFIX, group_topic_name

NAMESPACE = "public/default"


def test_a_deployment_without_a_name_is_the_one_it_was() -> None:
    """Its topic has operators' orders from before."""
    assert deployment_of(None) == DEPLOYMENT
    assert group_topic_name(NAMESPACE, DEPLOYMENT).startswith(f"persistent://{NAMESPACE}/{TOPIC_PREFIX}keyline-owners-")


def test_deployments_with_names_are_others_and_are_not_swept() -> None:
    """The sweep and the list of groups' topics look for the prefix of groups, and would take them for former ones."""
    names = {group_topic_name(NAMESPACE, deployment_of(name)) for name in (None, "a", "b", "a ", "ä/é")}
    assert len(names) == 5
    swept = [name for name in names if name.startswith(f"persistent://{NAMESPACE}/{TOPIC_PREFIX}")]
    assert swept == [group_topic_name(NAMESPACE, DEPLOYMENT)]


def test_what_is_said_in_a_deployment_with_a_name_is_as_short() -> None:
    """Its records are of a thousand bundles, too; a group of a subscription is no deployment."""
    record = GroupMemory(3, "here")
    named = deployment_of("host")
    assert json.loads(encode(record, named)) == json.loads(encode(record, DEPLOYMENT)) != json.loads(encode(record))
    assert decode_record(encode(record, named)) == record
    assert is_deployment(named)
    assert not is_deployment(GroupId("persistent://public/default/keyline", "owners of host"))
