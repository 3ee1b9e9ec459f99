"""The commands and their tables. Knows `config`, and of `app` what starts a gateway."""
