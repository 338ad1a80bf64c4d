"""Sums what is in a Parquet file, by DuckDB."""
import json
import sys

import duckdb

table = f"read_parquet('{sys.argv[1]}')"
events = {}
for event, samples, weight in duckdb.sql(
        f"select event, sum(samples), sum(weight) from {table} group by event").fetchall():
    events[event] = {"samples": int(samples), "weight": int(weight), "functions": {}}
own = f"select event, function, sum(weight), sum(samples) from {table} where stack <> '' group by all"
for event, name, weight, samples in duckdb.sql(own).fetchall():
    events[event]["functions"].setdefault(name, [0, 0, 0, 0])[0:2] = [int(weight), int(samples)]
total = f"""select event, name, sum(weight), sum(samples) from (
    select event, weight, samples, unnest(list_distinct(string_split(stack, ';'))) as name
    from {table} where stack <> '') group by all"""
for event, name, weight, samples in duckdb.sql(total).fetchall():
    events[event]["functions"].setdefault(name, [0, 0, 0, 0])[2:4] = [int(weight), int(samples)]
types = duckdb.sql(f"select typeof(recorded_at), typeof(pid), typeof(comm) from {table}").fetchall()[0]
assert types[0].startswith("TIMESTAMP") and types[1:] == ("INTEGER", "VARCHAR"), types
json.dump(events, sys.stdout)
