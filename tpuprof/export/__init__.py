"""Runs written for other programs and other people: trimmed, redacted, in the formats that they read."""
