"""Several gateways, one subscription: who serves which slice of its keys (EIP-0028). Pure."""
