"""Workers that own no slots, and when an ack lease ends, as the API tells."""

from __future__ import annotations

from tests.admin_api.rig import SUBSCRIPTION, AdminRig
from tests.net.subscription_rig_broker import single


def test_who_is_kept_out_is_told_with_the_reason_and_until_when() -> None:
    """Connected or not; readmitted, it is told no more."""
    rig = AdminRig(ack_lease_ms=2_000, quarantine_after=1, quarantine_ms=30_000)
    a, b = rig.worker("a", permits=9), rig.worker("b", permits=9)
    rig.link.deliver(*((entry, single(f"k{entry}")) for entry in range(12)))
    b.ack(*b.entries())
    (held,) = [each for each in rig.get("")["dispatcher"]["workers"] if each["name"] == "a"]
    assert held["ack_lease_ends_at"] == rig.get("")["now"] + 2.0
    rig.clock.advance(2.0)
    a.answers()
    b.ack(*b.entries())
    again = rig.worker("a", permits=9)
    rig.clock.advance(0.0)
    (told,) = rig.get("")["kept_out"]
    assert (told["name"], told["reason"], told["ends_at"]) == ("a", "quarantined", rig.get("")["now"] + 30.0)
    assert told["address"]
    assert rig.ask("POST", f"{SUBSCRIPTION}/workers/b/exclude").status_code == 200
    rig.clock.advance(0.0)
    (excluded,) = [each for each in rig.get("")["kept_out"] if each["name"] == "b"]
    assert (excluded["address"], excluded["reason"], excluded["ends_at"]) == (None, "excluded", None)
    for name in "ab":
        assert rig.ask("DELETE", f"{SUBSCRIPTION}/workers/{name}/exclude").status_code == 200
    rig.clock.advance(0.0)
    assert rig.get("")["kept_out"] == []
    assert [each["name"] for each in rig.get("")["dispatcher"]["workers"]] == ["a"]
    again.close()


def test_without_a_lease_none_ends() -> None:
    """Null, and no worker is kept out."""
    rig = AdminRig()
    rig.worker("a")
    assert rig.get("")["kept_out"] == []
    assert rig.get("")["dispatcher"]["workers"][0]["ack_lease_ends_at"] is None
