"""The Helm chart `keyline/`, and `python -m helm.build`, which writes what the chart has from elsewhere."""
