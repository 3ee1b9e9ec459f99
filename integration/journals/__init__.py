"""Journals of any size whose answers are known, for reports to be tried and measured on."""
