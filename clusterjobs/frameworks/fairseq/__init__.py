"""fairseq: its two programs, from one spec."""
