"""Every subscription has one owner, and every replica leads its clients there. Knows `relay`, `group` and below."""
