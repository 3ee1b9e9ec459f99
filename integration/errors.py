"""Errors while real parts are fetched and run, by what the reader has to do about them."""

from __future__ import annotations


class IntegrationError(Exception):
    """Base of this package's errors; its text is meant for a person and complete on its own."""


class ToolMissingError(IntegrationError):
    """The machine lacks a program (Java, Maven, Go): install it; the text names the packages."""


class DownloadError(IntegrationError):
    """Artifacts could not be fetched: look at the log the text names and try again; nothing half is kept."""


class StartError(IntegrationError):
    """A process did not become ready, or died: the text carries the tail of its log."""
