"""What the official Python client can do, tried one feature after another against any service URL."""
