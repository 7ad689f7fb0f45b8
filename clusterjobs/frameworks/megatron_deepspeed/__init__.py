"""Megatron-DeepSpeed: its command line, and its ds_config.json that must agree with it."""
