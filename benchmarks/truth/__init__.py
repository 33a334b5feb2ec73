"""How often ftprof is right: bottlenecks with known truth, planted in bare stacks and in real models."""
