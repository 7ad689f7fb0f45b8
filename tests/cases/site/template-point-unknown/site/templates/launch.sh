nvidia-smi
