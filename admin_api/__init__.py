"""The admin HTTP server: health, API, console, metrics and WebSocket workers."""
