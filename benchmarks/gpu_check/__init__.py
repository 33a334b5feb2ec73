"""What only a machine with an NVIDIA GPU can show: every CUDA part of ftprof run once, in one table, under 8 minutes."""
