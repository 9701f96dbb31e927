"""What the machine under test uses: its processes through psutil, its NVIDIA GPUs through NVML, others' pages read back."""
