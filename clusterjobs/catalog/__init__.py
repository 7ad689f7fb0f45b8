"""Facts about AWS hardware, each with its source. Must not know clusters or experiments."""
