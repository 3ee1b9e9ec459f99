"""The official clients' own tests, run directly at a broker and through the gateway, and compared test by test."""
