"""Every engine and precision that ftprof can build, against each other on the two samples."""
