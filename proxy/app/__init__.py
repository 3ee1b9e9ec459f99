"""The composition root: creates, starts and stops the parts. Imports every package; the only one with `admin_api`."""
