"""Which tests `make test` runs, and into which parts `make test-all` divides the others.

Problem: all tests together take two hours, too long to wait for after each change; and two lists of them, one that
runs always and one that runs at times, would sooner or later lack a test. Rule kept: a test belongs to the fast tier
unless its place is in a part below, and a place within another is the stronger one. So each test has exactly one
home, and a new test is in the fast tier until somebody decides otherwise. `pytest --part NAME` runs one home.

A place is a folder, a file, or `file::test`, from the root; `[words]` behind it narrows it to those whose parameters
have these words in their name.

    make test                                 the fast tier
    make test-all                             the fast tier, then every part
    make test-all PARTS='faults restarts'     these parts
    python -m tests.parts                     list them
"""

from __future__ import annotations

from functools import cache
from typing import Final

from tests.part import Part, Place

OLDER_BROKER: Final = "4.0.7"

REPLICATED: Final = (
    "tests/integration/test_features.py",
    "tests/integration/test_features_key_shared.py",
    "tests/integration/test_features_control.py",
    "tests/integration/test_clients.py",
    "tests/integration/test_websocket_order.py",
)
"""What is run again with several replicas behind the shared gateway."""

FAST: Final = Part(
    "fast",
    "every promise once, against real brokers: what `make test` runs",
    7,
    (
        "tests",
        "tests/integration/test_story.py",
        "tests/integration/test_owners.py::test_default_batches_keep_every_key_in_order_and_at_one_worker[4.2.4]",
        "tests/integration/test_owners.py::test_an_owner_is_killed[4.2.4]",
        "tests/integration/test_kills.py::test_the_gateway_is_killed_under_load[4.2.4-none]",
        "tests/integration/test_exclusive_replicas.py::test_producers_are_promoted_by_priority_over_all_replicas[4.2.4]",
        "tests/integration/test_exclusive_replicas.py::test_a_replica_is_killed_while_its_waiter_is_the_best[4.2.4]",
        "tests/integration/test_journal.py::test_the_journal_says_what_the_clients_saw[4.2.4-default]",
    ),
)

PARTS: Final = (
    Part(
        "faults",
        "order and completeness through delays, cuts, stalls and refusals of each network, and a clock that steps; "
        "a monitor that rings for a faulty dispatcher",
        24,
        (
            "tests/integration/faults",
            "tests/integration/test_contract_monitor.py",
            f"tests/integration/faults/test_owners_hung.py[{OLDER_BROKER}]",
        ),
    ),
    Part(
        "restarts",
        "SIGKILL and rolling restarts of gateways, replicas, brokers and workers under load",
        34,
        (
            "tests/integration/test_kills.py",
            "tests/integration/test_rolling_restart.py",
            "tests/integration/test_load_workers.py",
            "tests/integration/test_replicas.py",
            "tests/integration/test_owners_streams.py",
            "tests/integration/test_many_groups.py",
            "tests/integration/test_group_topics.py",
            "tests/integration/test_group_replay.py::test_a_replica_that_was_frozen_meanwhile_delivers_again_too",
            "tests/integration/test_waiting_producer.py::test_who_waits_outlives_a_kill_of_the_gateway",
            f"tests/integration/test_owners_wide.py[{OLDER_BROKER}]",
        ),
    ),
    Part(
        "owners",
        "replicas in owner mode: restarts, kills, freezes, cuts, full memory, orders, drains, partitions, scaling",
        18,
        (
            "tests/integration/test_owners.py",
            "tests/integration/test_owners_killed.py",
            "tests/integration/test_owners_wide.py",
            "tests/integration/test_owners_last_acks.py",
            "tests/integration/test_parked_takeover.py",
            "tests/integration/test_owners_orders.py",
            "tests/integration/faults/test_owners_hung.py",
            "tests/integration/faults/test_owners_full.py",
            "tests/integration/faults/test_owners_held.py",
            "tests/integration/faults/test_owners_parted.py",
            "tests/integration/faults/test_owners_clock.py",
        ),
    ),
    Part(
        "security",
        "TLS, tokens, certificates, an identity provider and the broker's authorization hold through the gateway",
        21,
        (
            "tests/integration/test_tls.py",
            "tests/integration/test_authorization.py",
            "tests/integration/test_expiring_tokens.py",
            "tests/integration/test_client_certificates.py",
            "tests/integration/test_certificate_misuse.py",
            "tests/integration/test_certificate_roles.py",
            "tests/integration/test_identity_provider.py",
            "tests/integration/test_admin_viewer.py",
            "tests/integration/test_console_login.py",
            "tests/integration/test_named_brokers.py",
            "tests/integration/test_bad_input.py::test_bad_input_costs_no_memory",
            "tests/integration/test_bad_input.py::test_ten_thousand_connections_opened_and_dropped_leave_nothing",
        ),
    ),
    Part(
        "features",
        "what clients may do with subscriptions, through three replicas in owner mode as through one gateway",
        4,
        command=("PYTHON", "-m", "pytest", "-q", "-n", "2", "--replicas=3", *REPLICATED),
    ),
    Part(
        "older-broker",
        f"on a {OLDER_BROKER} broker what the fast tier shows on the current one",
        4,
        (f"tests[{OLDER_BROKER}]",),
    ),
    Part(
        "producers",
        "exclusive producers under stress and across replicas, and PIP-440's scenario of uptime",
        4,
        (
            "tests/integration/test_exclusive_replicas.py",
            "tests/integration/test_exclusive_stress.py",
            "tests/integration/test_exclusive_model.py",
            "tests/integration/test_uptime.py::test_survivors_share_and_the_standby_waits_for_the_last",
            "tests/integration/test_uptime.py::test_in_the_order_of_arrival_the_standby_takes_all",
        ),
    ),
    Part(
        "compiled",
        "a wheel with compiled modules: its core, wire and net pass their tests, and 200 seeds of the simulator",
        8,
        command=("PYTHON", "-m", "tests.compiled"),
    ),
    Part(
        "fuzzing",
        "guided searches for inputs that break a promise, and ten times the requests to the admin API that are made up",
        2,
        (
            "tests/fuzz/test_fuzz.py::test_a_guided_search_finds_nothing",
            "tests/fuzz/test_fuzz.py::test_the_memory_of_who_starts_a_search_is_not_taken_for_its_own",
        ),
        repeats=("tests/admin_api/test_schemathesis.py",),
    ),
    Part(
        "chart",
        "the Helm chart: what it renders, refuses, upgrades and says; the wheel beside another `proxy`; the site",
        2,
        ("tests/helm", "tests/test_wheel.py", "tests/test_site.py"),
    ),
    Part(
        "owner-mode",
        "what surrounds replicas in owner mode: migrations there and back, several processes of a host, clients in "
        "three languages, replays, the line before all others; a replica that hangs while a setting changes, or beside "
        "direct workers",
        10,
        (
            "tests/integration/test_owners_migrate.py",
            "tests/integration/test_owners_streams_hung.py",
            "tests/integration/test_owners_migrating_hung.py",
            "tests/integration/test_host_processes.py",
            "tests/integration/test_line_before.py",
            "tests/integration/test_owners_clients.py",
            "tests/integration/test_owners_passing.py",
            "tests/integration/test_owners_replay.py",
            "tests/integration/test_console_owners.py",
        ),
    ),
    Part(
        "lives",
        "ten times the random lives of the models, of groups and of producers",
        5,
        repeats=(
            "tests/groups/test_lives.py",
            "tests/net/test_shared_orders.py::test_all_agree_in_the_end",
            "tests/core/test_ack_lease.py",
            "tests/core/test_explain.py::TestExplained",
            "tests/core/test_key_policy_model.py",
            "tests/core/test_leased_model.py",
            "tests/core/test_model.py",
            "tests/core/test_pending.py::TestPaged",
            "tests/core/test_preview.py::TestPreviewed",
            "tests/core/test_spilling_model.py",
            "tests/net/test_producer_chaos.py::TestLives",
            "tests/net/test_producer_chaos.py::TestReplicaLives",
            "tests/producers/test_election.py::TestLives",
            "tests/producers/test_replicas.py::TestLives",
        ),
    ),
    Part(
        "seeds",
        "2,000 seeds of the simulator and 600 of whole deployments",
        10,
        (
            "tests/sim/test_deployment.py::test_a_seed_has_one_history",
            "tests/sim/test_deployment.py::test_a_failure_is_told_with_a_short_history_that_shows_it_again",
        ),
        repeats=(
            "tests/sim/test_sim.py::test_no_seed_breaks_a_guarantee",
            "tests/sim/test_deployment.py::test_no_seed_breaks_a_promise",
        ),
    ),
    Part(
        "journal",
        "the journal, its reports, and traces: rolling and killed gateways, an object store, a Spark cluster",
        12,
        (
            "tests/integration/test_export_metrics.py",
            "tests/integration/test_tracing.py",
            "tests/integration/test_journal.py",
            "tests/integration/test_journal_store.py",
            "tests/reports/test_capacity.py",
            "tests/reports/test_class_archive.py",
            "tests/reports/test_cluster.py",
            "tests/reports/test_coverage.py",
            "tests/reports/test_days.py",
            "tests/reports/test_drains.py",
            "tests/reports/test_gateway_runs.py",
            "tests/reports/test_interventions.py",
            "tests/reports/test_key_skew.py",
            "tests/reports/test_kept_out_audit.py",
            "tests/reports/test_latency.py",
            "tests/reports/test_leases.py",
            "tests/reports/test_live.py",
            "tests/reports/test_metrics_summary.py",
            "tests/reports/test_ordering_audit.py",
            "tests/reports/test_page.py",
            "tests/reports/test_policy_audit.py",
            "tests/reports/test_progress.py",
            "tests/reports/test_reading.py",
            "tests/reports/test_redeliveries.py",
            "tests/reports/test_service.py",
            "tests/reports/test_span.py",
            "tests/reports/test_transactions_audit.py",
        ),
    ),
    Part(
        "operations",
        "migrations there and back, the demo, the launcher, and every command that the documentation shows",
        15,
        (
            "tests/integration/test_migrate.py",
            "tests/integration/test_docs_commands.py",
            "tests/integration/test_demo.py",
            "tests/integration/test_launcher.py",
            "tests/integration/test_console_causes.py",
            "tests/integration/test_console_many.py",
            "tests/integration/test_console_parked.py",
            "tests/integration/test_console.py::test_a_gateway_that_hangs_is_noticed",
            "tests/integration/test_console.py::test_three_hundred_workers",
            "tests/integration/test_console_producers.py::test_a_gateway_that_another_part_of_the_page_reaches_is_not_told_as_back",
            "tests/integration/test_console_producers.py::test_many_topics_come_by_the_hundred",
            "tests/integration/test_console_groups.py::test_a_gateway_that_is_gone_is_told_and_found_again",
            "tests/integration/test_comparison.py::test_batches_of_many_keys_break_order_direct_and_keep_it_through_the_gateway",
            "tests/integration/test_pulsar_admin.py::test_reads_are_answered_by_the_broker",
            "tests/integration/test_pulsar_admin.py::test_messages_are_looked_at_through_the_gateway",
            "tests/integration/test_pulsar_admin.py::test_a_write_is_refused_with_the_reason_or_done_where_it_is_configured",
            "tests/integration/test_pulsar_admin.py::test_partitions_look_as_they_do_at_the_broker",
            "tests/integration/test_pulsar_admin.py::test_join_positions_are_shown_in_the_mode_that_has_them",
            "tests/integration/test_pulsar_admin.py::test_a_dead_admin_api_is_told_while_ours_answers",
        ),
    ),
    Part(
        "clients",
        "clients in four languages, feature by feature, and scenarios after Pulsar's own suite: direct, through the "
        "gateway and through replicas of it",
        28,
        (
            "tests/integration/test_compatibility.py",
            "tests/integration/test_key_shared_suite.py",
            "tests/integration/test_clients.py",
            "tests/integration/test_dead_letters.py",
            "tests/integration/test_own_topics.py",
            "tests/integration/test_unavailable_topics.py",
            "tests/integration/test_excluded_workers.py",
            "tests/integration/test_parked_clients.py",
            "tests/integration/test_hung_worker.py",
            "tests/integration/test_held_ranges.py",
            "tests/integration/test_key_windows.py",
            "tests/integration/test_live_policies.py",
            "tests/integration/test_reloaded_policies.py",
            "tests/integration/test_suites.py::test_a_selection_passes_on_both_ways",
            "tests/integration/test_features_chunks.py",
            "tests/integration/test_features_transactions.py",
            "tests/integration/test_transactional_acks.py",
            "tests/integration/test_transaction_restarts.py",
            "tests/integration/test_pending_acks.py",
            "tests/integration/test_exclusive_java.py",
            "tests/integration/test_websocket_order.py",
            "tests/integration/test_ring.py::test_ranges_split_in_halves_are_the_brokers",
        ),
    ),
    Part(
        "load",
        "overload, floods, expanding batches, a soak with thousands of restarts, and the bench itself",
        10,
        (
            "tests/integration/test_overload.py",
            "tests/integration/test_expanding_batches.py",
            "tests/integration/test_flood.py",
            "tests/integration/test_soak.py",
            "tests/integration/test_mixed_batches.py[lz4]",
            "tests/integration/test_mixed_batches.py[snappy]",
            "tests/integration/test_mixed_batches.py[zlib]",
            "tests/integration/test_mixed_batches.py[zstd-true]",
            "tests/integration/test_bench.py",
            "tests/integration/test_tools.py",
            "tests/groups/test_scale.py[together]",
        ),
    ),
    Part(
        "suites",
        "the official Go and Rust clients' own tests end alike, direct and through the gateway",
        15,
        command=("PYTHON", "-m", "integration.suites", "--logs", "LOGS"),
    ),
    Part(
        "image",
        "the image, built without a registry, and the whole story told of containers",
        12,
        (
            "tests/integration/test_image.py",
            "tests/integration/test_compose.py",
            "tests/integration/test_image_base.py",
            "tests/integration/test_story.py[containers]",
        ),
    ),
)
"""In the order of their value for each minute: what `.ci/run` has no time for is at the end.

What no user could live with comes first: lost order or messages, then a door that is open. Then what takes few minutes.
What is searched at random has a tenth in the fast tier, and tools, clients' own tests and the image change seldom.
"""

HOMES: Final = (FAST, *PARTS)
NAMES: Final = {part.name: part for part in HOMES}
_PLACES: Final = sorted(
    ((Place.of(place), part.name) for part in HOMES for place in part.tests),
    key=lambda item: item[0].strength,
    reverse=True,
)


@cache
def _places_of(path: str) -> tuple[tuple[Place, str], ...]:
    """Places that a file has tests at, the strongest first: few of all, and a file has many tests."""
    return tuple((place, name) for place, name in _PLACES if place.around(path))


@cache
def home_of(nodeid: str) -> str:
    """Name of the one home of a test: the fast tier or a part."""
    test = Place.of(nodeid)
    return next(name for place, name in _places_of(test.path) if place.has(test))


@cache
def _repeated(name: str) -> tuple[Place, ...]:
    return tuple(map(Place.of, NAMES[name].repeats))


def runs(nodeid: str, name: str) -> bool:
    """Whether a part runs a test: one of its own, or one of the fast tier at full size."""
    home = home_of(nodeid)
    if home == name:
        return True
    repeated = _repeated(name) if home == FAST.name else ()
    return bool(repeated) and any(place.has(Place.of(nodeid)) for place in repeated)


def main() -> int:
    """List the homes."""
    for part in HOMES:
        print(f"{part.name:14} {part.minutes:5.1f} min  {part.proves}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
