"""Bytes to events and back: discovery of runs, readers and writers."""
