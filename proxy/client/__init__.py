"""For applications: helpers around the official client; they know nothing of the gateway's insides."""
