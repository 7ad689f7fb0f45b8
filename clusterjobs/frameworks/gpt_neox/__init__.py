"""GPT-NeoX: its own config files, and the one that clusterjobs adds."""
