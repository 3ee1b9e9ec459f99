"""What the admin API's answers look like."""
