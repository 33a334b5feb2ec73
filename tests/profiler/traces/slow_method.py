"""The analysis's central figures once more, slowly and by other means: plain JSON, decimals, one interval at a time.

Nothing here is imported from the analysis except the classes of kernel names, which have tests of their own.
"""

from __future__ import annotations

import bisect
import gzip
import itertools
import json
import statistics
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from ftprof.profiler.traces.taxonomy import kernel_class

DEVICE = {"kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset"}
RUNTIME = {"cuda_runtime", "cuda_driver", "Runtime"}
HOST = RUNTIME | {"cpu_op", "Operator", "user_annotation", "python_function"}
PREPARING = ("torch/utils/data/", "enumerate(DataLoader)", "image_processing_", "transformers/tokenization_")


SHORT = 1_000_000


@dataclass(frozen=True)
class Piece:
    """One event, in nanoseconds of the file's clock."""

    start: int
    end: int
    cat: str
    name: str
    lane: tuple[str, str]
    device: int
    correlation: int | None


def _start(piece: Piece) -> int:
    return piece.start


@dataclass
class Slow:
    """A trace read by the standard library."""

    work: list[Piece]
    host: list[Piece]
    origin: int
    end: int


def read(path: Path) -> Slow:
    """Reads a whole file at once; numbers stay decimal."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8", "replace")
    document = json.loads(text, strict=False, parse_float=Decimal)
    events = [each for each in document["traceEvents"] if each.get("ph") == "X"]
    pieces = [_piece(each) for each in events if each.get("cat") in DEVICE | HOST]
    work = [piece for piece in pieces if piece.cat in DEVICE]
    host = [piece for piece in pieces if piece.cat in HOST]
    origin = min(piece.start for piece in pieces)
    return Slow(work, host, origin, max(piece.end for piece in pieces))


def _piece(event: dict[str, Any]) -> Piece:
    start, length = (int(Decimal(event[key]) * 1000) for key in ("ts", "dur"))
    args = event.get("args", {})
    return Piece(
        start=start,
        end=start + length,
        cat=event["cat"],
        name=event["name"],
        lane=(str(event["pid"]), str(event["tid"])),
        device=int(args.get("device", -1)) if event["cat"] in DEVICE else -1,
        correlation=args.get("correlation"),
    )


def islands(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Maximal covered stretches."""
    made: list[tuple[int, int]] = []
    for start, end in sorted(each for each in intervals if each[1] > each[0]):
        if made and start <= made[-1][1]:
            made[-1] = (made[-1][0], max(made[-1][1], end))
        else:
            made.append((start, end))
    return made


def busiest(trace: Slow) -> list[Piece]:
    """The work of the device that is busy longest."""
    devices = {piece.device for piece in trace.work}
    by_device = {device: [piece for piece in trace.work if piece.device == device] for device in devices}
    return max(by_device.values(), key=lambda work: sum(b - a for a, b in islands([(p.start, p.end) for p in work])))


def class_times(work: list[Piece]) -> dict[str, tuple[int, int]]:
    """(pieces, nanoseconds) by class."""
    counts: Counter[str] = Counter(kernel_class(piece.name) for piece in work)
    return {
        kind: (count, sum(piece.end - piece.start for piece in work if kernel_class(piece.name) == kind))
        for kind, count in counts.items()
    }


class Ledger:
    """Classifies any instant of the trace; each window is summed over stretches in which nothing changes."""

    def __init__(self, trace: Slow) -> None:
        self.trace, self.work = trace, busiest(trace)
        self.islands = islands([(piece.start, piece.end) for piece in self.work])
        self.calls: dict[int, Piece] = {}
        for piece in sorted(trace.host, key=lambda each: each.start):
            if piece.cat in RUNTIME and piece.correlation:
                self.calls.setdefault(piece.correlation, piece)
        self.pageable = {
            piece.correlation
            for piece in trace.work
            if "emcpy" in piece.cat and ("Pageable" in piece.name or "Host" in piece.name)
        }
        self.work.sort(key=lambda each: each.start)
        self.starts = [piece.start for piece in self.work]
        self.longest = max(piece.end - piece.start for piece in self.work)
        self.order = {id(piece): number for number, piece in enumerate(trace.host)}
        self.lanes: dict[tuple[str, str], list[Piece]] = {}
        for piece in trace.host:
            self.lanes.setdefault(piece.lane, []).append(piece)
        self.short = {
            lane: sorted((p for p in host if p.end - p.start < SHORT), key=_start) for lane, host in self.lanes.items()
        }
        self.long = {lane: [p for p in host if p.end - p.start >= SHORT] for lane, host in self.lanes.items()}
        self.main = self._main()
        self.near = self._near()

    def _main(self) -> tuple[str, str]:
        launching = Counter(
            piece.lane
            for piece in self.trace.host
            if piece.cat in RUNTIME and any(word in piece.name for word in ("Launch", "Memcpy", "Memset"))
        )
        counts = launching or Counter(piece.lane for piece in self.trace.host)
        return max(self.lanes, key=lambda lane: counts[lane], default=("", ""))

    def _next(self, start: int) -> Piece:
        """The work that begins an island; of several the one that was launched first."""
        first = bisect.bisect_left(self.starts, start)
        same = self.work[first : bisect.bisect_right(self.starts, start)]
        found = [piece for piece in same if piece.end > start]
        launched = [piece for piece in found if piece.correlation in self.calls]
        return min(launched, key=lambda piece: self._asked(self.calls[piece.correlation or -1]), default=found[0])

    def _asked(self, call: Piece) -> tuple[int, int, int]:
        return call.start, -call.end, self.order[id(call)]

    def _near(self) -> int:
        rests = []
        for (_, before), (after, _) in zip(self.islands, self.islands[1:], strict=False):
            call = self.calls.get(self._next(after).correlation or -1)
            if call and call.end <= before:
                rests.append(after - before)
        return min(max(5000, int(2 * statistics.median(rests))), 100_000) if rests else 5000

    def split(self, low: int, high: int) -> Counter[str]:
        """Nanoseconds by class in [low, high)."""
        total: Counter[str] = Counter()
        at = self.trace.origin
        for start, end in [*self.islands, (self.trace.end, self.trace.end)]:
            if start > at and start > low and at < high:
                self._gap(at, start, start < self.trace.end or start != end, (low, high), total)
            self._busy(max(start, low), min(end, high), total)
            at = end
        return total

    def _busy(self, low: int, high: int, total: Counter[str]) -> None:
        if high <= low:
            return
        first = bisect.bisect_left(self.starts, low - self.longest)
        near = self.work[first : bisect.bisect_left(self.starts, high)]
        inside = [piece for piece in near if piece.end > low]
        marks = sorted({low, high} | {t for p in inside for t in (p.start, p.end) if low < t < high})
        for start, end in itertools.pairwise(marks):
            running = [piece for piece in inside if piece.start <= start and piece.end >= end]
            total[_busy_class(running)] += max(end - start, 0)

    def _gap(self, start: int, end: int, works: bool, window: tuple[int, int], total: Counter[str]) -> None:
        """One idle time, split where anything changes."""
        piece = self._next(end) if works else None
        call = self.calls.get(piece.correlation or -1) if piece else None
        lane = call.lane if call else self.main
        short = self.short.get(lane, [])
        near = short[bisect.bisect_left(short, start - SHORT, key=_start) : bisect.bisect_left(short, end, key=_start)]
        host = [each for each in near + self.long.get(lane, []) if each.start < end and each.end > start]
        asked, late = end if piece is None else start, end if piece is None else start
        copying = piece is not None and "emcpy" in piece.cat
        if call:
            loads = not copying and call.end - call.start > 1_000_000
            asked = min(max(call.end if loads else call.start, start), end)
            late = min(max(call.end + 100_000, asked), end)
        if piece and asked == start and end - start <= self.near:
            late = end
        cuts = {start, end, asked, late, *window} | {t for each in host for t in (each.start, each.end)}
        if call:
            cuts.add(call.end)
        marks = sorted(cut for cut in cuts if start <= cut <= end)
        for low, high in itertools.pairwise(marks):
            if low >= window[0] and high <= window[1]:
                kind = self._idle_class(
                    low, high, (asked, late), host, (call, copying), piece is None or call is not None
                )
                total[kind] += high - low

    def _idle_class(
        self,
        low: int,
        high: int,
        bounds: tuple[int, int],
        host: list[Piece],
        launch: tuple[Piece | None, bool],
        known: bool,
    ) -> str:
        call, copying = launch
        if low >= bounds[0] and low < bounds[1]:
            if copying and call and high <= call.end:
                return "pageable_copy_call" if call.correlation in self.pageable else "copy_call"
            return "launch_latency"
        if low >= bounds[1] and known and call:
            return "unexplained"
        doing = self._doing([each for each in host if each.start <= low and each.end >= high])
        if known:
            return doing
        sure = ("synchronisation", "pageable_copy_call", "copy_call", "data_loading")
        return doing if doing in sure else "unexplained"

    def _doing(self, inside: list[Piece]) -> str:
        runtime = [each for each in inside if each.cat in RUNTIME]
        if any(each.name.endswith("Synchronize") for each in runtime):
            return "synchronisation"
        copies = [each for each in runtime if "Memcpy" in each.name]
        if any(each.correlation in self.pageable for each in copies):
            return "pageable_copy_call"
        if copies:
            return "copy_call"
        if any("Malloc" in each.name or "Free" in each.name or "HostAlloc" in each.name for each in runtime):
            return "allocator"
        if any(word in each.name for each in inside if each.cat not in RUNTIME for word in PREPARING):
            return "data_loading"
        if runtime:
            return "runtime_call"
        if any(each.cat in ("cpu_op", "Operator") and not each.name.startswith("ProfilerStep#") for each in inside):
            return "op"
        return "python" if any(each.cat == "python_function" for each in inside) else "unrecorded"


def _busy_class(running: list[Piece]) -> str:
    kernels = [piece for piece in running if piece.cat in ("kernel", "Kernel")]
    if any(kernel_class(piece.name) != "collective" for piece in kernels):
        return "compute"
    if kernels:
        return "communication"
    paged = [piece for piece in running if "Pageable" in piece.name or "Host" in piece.name]
    return "pageable_copy" if paged else "copy"
