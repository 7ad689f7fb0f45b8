"""fairseq's two command lines, from one spec."""
