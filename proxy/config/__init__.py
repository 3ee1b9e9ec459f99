"""Settings: their model, loading and showing. Knows `limits` and `errors`."""
