"""Megatron-LM, on Megatron Core: its command line, and the rules of its argument parser."""
