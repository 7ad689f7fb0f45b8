nvidia-smi
echo
