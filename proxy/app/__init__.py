"""The composition root: makes the parts, starts and stops them. Knows every room; only this one knows `admin_api`."""
