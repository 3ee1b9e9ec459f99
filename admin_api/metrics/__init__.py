"""The gateway's metrics in Prometheus's formats: their definitions (`families`) and their output."""
