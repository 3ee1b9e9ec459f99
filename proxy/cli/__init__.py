"""The commands and their tables. Uses `config`, and `app` only to start a gateway."""
