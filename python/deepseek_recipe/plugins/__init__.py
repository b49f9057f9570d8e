"""The codec inside the servers of engines, by the hooks that they have for it. Knows no gateway."""
