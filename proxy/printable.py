"""Untrusted text for a terminal: control characters are escaped.

Problem: clients choose the names of topics, subscriptions and consumers, which may contain escape sequences. A terminal
executes them: it changes its title, hides or rewrites lines, or sends input. A line break turns one log line into two,
and a mark of writing direction reverses the rest of the line.
Rule: every character that Python considers not printable, except blanks, is shown by its escape. JSON does so by
itself.
"""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with every non-printable character escaped."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
