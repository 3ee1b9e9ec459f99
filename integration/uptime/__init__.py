"""The scenario of PIP-440's Motivation, for real: uptime checkers share endpoints, fail one by one, a standby waits."""
