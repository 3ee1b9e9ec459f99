"""Several gateways, one subscription: who serves which stream of its keys (EIP-0028). Pure."""
