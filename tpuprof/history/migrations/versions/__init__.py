"""One module per revision. They are history: they do not change when the tables do."""
