"""Who may ask the admin API what: tokens, roles, and what each request needs."""
