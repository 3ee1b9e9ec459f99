"""For applications: helpers around the official client, independent of the gateway's code."""
