"""What NVML read stands in the page where there was a device, and nothing where there was none."""

from __future__ import annotations

import msgspec

from ftprof.profiler.nvml import DeviceUse
from ftprof.reports import fact_tables, html
from tests.reports import example

USE = DeviceUse(
    seconds=12.0,
    readings=120,
    power_w=310.4,
    energy_j=None,
    peak_memory_bytes=10 << 30,
    sm=0.31,
    tensor=None,
    dram=0.62,
    held_back={"power cap": 0.25},
    token_energy_j=0.4567,
    notes=("The device is cut up by MIG.",),
)


def test_readings_and_what_was_not_answered() -> None:
    audit = example.full()
    audit = msgspec.structs.replace(audit, model=msgspec.structs.replace(audit.model, device=USE))
    rows = {row[0]: row[1] for row in fact_tables.device(audit).rows}
    assert rows["Mean power"] == "310 W"
    assert rows["Energy"] == rows["Tensor cores busy (GPM)"] == "not measured"
    assert rows["Energy a token"] == "0.457 J"
    assert rows["Note"] == "The device is cut up by MIG."
    assert rows["Clock held back by"] == "power cap (25% of readings)"
    assert "Memory bandwidth used (GPM)" in html.render(audit)


def test_no_device_no_table() -> None:
    assert not fact_tables.device(example.full()).rows
    assert "by NVML" not in html.render(example.full())
