"""Reads a closed run folder with pyarrow and DuckDB, and prints sums per kind and name of phase as JSON.

Started by main_job.rs. It knows the accounts by the prefix of their columns only, and changes nothing.
"""

import json
import sys

import duckdb
import pyarrow.parquet as pq

folder = sys.argv[1]
phases = f"{folder}/phases.parquet"
accounts = [name for name in pq.read_schema(phases).names if name.startswith("time_")]
total = " + ".join(accounts)

rows = duckdb.sql(f"""
    SELECT kind, name, warmup, count(*), sum(duration_ns)::BIGINT, sum({total})::BIGINT,
           count(*) FILTER ({total} <> duration_ns), count(DISTINCT trace_id)
    FROM '{phases}' WHERE kind <> 'queue' GROUP BY ALL ORDER BY ALL
""").fetchall()
keys = ["kind", "name", "warmup", "count", "duration_ns", "accounts_ns", "wrong_sums", "traces"]
table = pq.read_table(phases)

print(json.dumps({
    "groups": [dict(zip(keys, row)) for row in rows],
    "pyarrow_rows": table.num_rows,
    "pyarrow_duration_ns": sum(table["duration_ns"].to_pylist()),
    "accounts": accounts,
    "files": {name: pq.read_metadata(f"{folder}/{name}.parquet").num_rows for name in ("threads", "samples", "marks")},
}))
