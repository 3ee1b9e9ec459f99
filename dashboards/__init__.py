"""Grafana dashboards of the gateway's metrics, and the module that writes their JSON."""
