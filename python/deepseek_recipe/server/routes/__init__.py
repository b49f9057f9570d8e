"""One file a protocol: a request to the gateway, and the reply around its answers."""
