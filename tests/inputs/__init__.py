"""Small traces with known answers. A function ``f00`` … takes a directory, writes the input and returns what
to open.

``f00_trace()`` gives the clean run as a builder; all others are that run with one change.
"""
