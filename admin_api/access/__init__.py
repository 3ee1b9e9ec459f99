"""Authentication and authorization of the admin API: tokens, roles, and the role that each request needs."""
