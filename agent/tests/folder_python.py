"""Reads a closed and a running run folder with pyarrow and DuckDB, and prints what it found as JSON.

Started by folder_python.rs. It knows no column by heart but those that it asks for; it changes nothing.
"""

import json
import sys

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

closed, running = sys.argv[1:]
table = pq.read_table(f"{closed}/phases.parquet")
with pa.OSFile(f"{running}/phases.arrows") as file:
    stream = pa.ipc.open_stream(file).read_all()

accounts = [name for name in table.column_names if name.startswith("time_")]
total = table[accounts[0]]
for name in accounts[1:]:
    total = pc.add(total, table[name])
is_queue = pc.equal(table["kind"].cast(pa.string()), "queue")
sums_up = pc.or_(is_queue, pc.equal(total, table["duration_ns"]))

phases = f"'{closed}/phases.parquet'"
sql = f"""
    SELECT count(*) FILTER (kind <> 'queue' AND {" + ".join(accounts)} <> duration_ns),
           sum(duration_ns)::BIGINT, count(DISTINCT trace_id), count(cause), max(request)::VARCHAR,
           count(*) FILTER (parent_span_id = (SELECT span_id FROM {phases} WHERE kind = 'request' ORDER BY id LIMIT 1))
    FROM {phases}
"""
wrong, duration_ns, traces, causes, largest_request, children = duckdb.sql(sql).fetchall()[0]
joined = duckdb.sql(f"""
    SELECT count(*) FROM {phases} JOIN '{closed}/threads.parquet' USING (tid, tgid, thread_born_ns)
""").fetchall()[0][0]

print(json.dumps({
    "rows": table.num_rows,
    "accounts": len(accounts),
    "pyarrow_wrong_sums": pc.sum(pc.invert(sums_up)).as_py(),
    "pyarrow_duration_ns": pc.sum(table["duration_ns"]).as_py(),
    "duckdb_wrong_sums": wrong,
    "duckdb_duration_ns": duration_ns,
    "traces": traces,
    "causes": causes,
    "largest_request": largest_request,
    "children_of_first_root": children,
    "rows_joined_with_threads": joined,
    "stream_differs_in": [name for name in stream.column_names if stream[name].to_pylist() != table[name].to_pylist()],
    "only_closed": [name for name in table.column_names if name not in stream.column_names],
}))
