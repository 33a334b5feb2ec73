"""Two small real fine-tunes, the data they were trained on, and faults planted in copies of them.

Nothing here is needed to diagnose a model of your own. `ftprof demo` uses it, and so do the tests and the benchmarks.
Importing this package, `demo`, `prepare` or `variants` never loads torch.
"""
