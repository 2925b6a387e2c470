"""Two sides of a change: what differs, by how much, and whether that is more than noise."""
