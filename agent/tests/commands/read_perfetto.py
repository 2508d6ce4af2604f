"""Reads an exported trace with Perfetto's own definitions and holds it against the run folder that it came
from.

    guestscope export DIR --to perfetto --output ic.perfetto-trace
    python read_perfetto.py ic.perfetto-trace DIR

Needs the packages perfetto (for its definitions; nothing of it is run) and pyarrow. By hand: 60 MB of
packages are too much for a test. Made with perfetto 0.59.1, protobuf 7.36.2, pyarrow 26.0.
"""

import collections
import sys

import pyarrow.parquet as parquet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto

trace = perfetto.Trace()
trace.ParseFromString(open(sys.argv[1], "rb").read())
phases = parquet.read_table(f"{sys.argv[2]}/phases.parquet").to_pylist()
waits = parquet.read_table(f"{sys.argv[2]}/waits.parquet").to_pylist()

names = {}
slices = []
open_slices = collections.defaultdict(list)
events = [packet for packet in trace.packet if packet.HasField("track_event")]
for packet in trace.packet:
    if packet.HasField("track_descriptor"):
        names[packet.track_descriptor.uuid] = packet.track_descriptor
# As Perfetto does: by time, and among equals as they come.
for packet in sorted(events, key=lambda packet: packet.timestamp):
    event = packet.track_event
    assert event.track_uuid in names, "an event without a track"
    assert packet.timestamp_clock_id == 3
    if event.type == perfetto.TrackEvent.TYPE_SLICE_BEGIN:
        open_slices[event.track_uuid].append((packet.timestamp, event))
    elif event.type == perfetto.TrackEvent.TYPE_SLICE_END:
        begin, first = open_slices[event.track_uuid].pop()
        slices.append((first.name, begin, packet.timestamp - begin, first))
assert not any(open_slices.values()), "slices without an end"

told = collections.Counter((name, begin, length) for name, begin, length, _ in slices)
expected = collections.Counter((row["name"], row["start_ns"], row["duration_ns"]) for row in phases)
expected += collections.Counter((row["account"], row["start_ns"], row["duration_ns"]) for row in waits)
assert told == expected, f"{(told - expected).most_common(3)} told, {(expected - told).most_common(3)} lacking"
by_begin = {(row["name"], row["start_ns"]): row for row in phases}
for name, begin, length, event in slices:
    row = by_begin.get((name, begin))
    if row and "wait" not in event.categories:
        told = {note.name: note.uint_value for note in event.debug_annotations}
        times = sum(ns for key, ns in told.items() if key.startswith("time."))
        assert times in (length, 0), (name, begin)
        assert told.get("time.cpu_ns", 0) == row["time_cpu_ns"]
threads = sum(track.HasField("thread") for track in names.values())
counters = sum(track.HasField("counter") for track in names.values())
print(f"{len(slices)} slices on {threads} threads, {counters} counters: as in the folder")
