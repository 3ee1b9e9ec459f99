"""The simulator of whole deployments: several real gateways in owner mode, a made-up broker, workers at all."""
