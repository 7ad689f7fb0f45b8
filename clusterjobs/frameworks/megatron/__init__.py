"""What Megatron-LM and Megatron-DeepSpeed, its fork, have in common."""
