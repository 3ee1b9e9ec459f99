"""What a person reads after an installation: the next commands, with the names of this release in them."""

from __future__ import annotations

import pytest

from tests.helm.chart import SCENARIOS, Chart


def test_notes_say_the_next_commands(chart: Chart) -> None:
    """Wait, test, connect, look."""
    notes = chart.notes("minimal")
    assert "kubectl --namespace shop rollout status deployment/events-keyline" in notes
    assert "helm test events --namespace shop --logs" in notes
    assert "serviceUrl = pulsar://events-keyline.shop.svc:6650" in notes
    assert "port-forward service/events-keyline-admin 8750:8750" in notes


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_notes_have_nothing_unfilled(chart: Chart, scenario: str) -> None:
    """No value that is missing shows."""
    notes = chart.notes(scenario)
    assert "<no value>" not in notes
    assert "%!" not in notes
    assert not [line for line in notes.splitlines() if line != line.rstrip()]


def test_notes_say_which_secrets_to_copy(chart: Chart) -> None:
    """Where the release is in another namespace."""
    notes = chart.notes("secured-release")
    assert "create secret generic main-token-keyline --from-file=TOKEN=" in notes
    assert """get secret main-ca-tls --output go-template='{{ index .data "ca.crt" | base64decode }}'""" in notes


def test_notes_warn_of_a_superusers_token(chart: Chart) -> None:
    """And of no other."""
    warning = "The gateway uses the token of admin"
    assert warning in chart.notes("minimal", "pulsar.auth.jwt.enabled=true")
    assert warning not in chart.notes("secured-release")


def test_notes_warn_of_a_public_port_without_tls(chart: Chart) -> None:
    """And of nothing where there is TLS."""
    assert "clients connect without TLS" in chart.notes("minimal", 'service.type="LoadBalancer"')
    assert "clients connect without TLS" not in chart.notes("public-tls")
