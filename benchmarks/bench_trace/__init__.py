"""How fast traces are read and analysed, and in how much memory: against HTA and gunzip, on the same files."""
