nvidia-smi \
