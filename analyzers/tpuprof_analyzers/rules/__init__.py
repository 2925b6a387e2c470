"""One page per rule: what it means, what it costs, what to try, how it is measured, and when it is wrong."""
