"""What official clients can do through the gateway, found out by doing it, and the table of it in the documentation."""
