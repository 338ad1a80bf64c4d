"""Runs the SQL of docs/exports.md by an engine: recipes.py ENGINE DOCS FUNCTION.

In a folder with partitions; prints what each recipe gives as JSON, a list of
rows each. FUNCTION stands in for the one that the text asks for.
"""
import json
import re
import sys

engine, docs, function = sys.argv[1:]
text = open(docs, encoding="utf-8").read()
recipes = [recipe for recipe in re.findall(r"```sql\n(.*?)```", text, re.S)
           if recipe.startswith(f"-- {engine}")]
assert len(recipes) == 1, f"one block of {engine} in {docs}"
statements = [it for it in recipes[0].replace("'parse'", f"'{function}'").split(";\n") if it.strip()]


def duckdb(statement):
    import duckdb
    return duckdb.sql(statement).fetchall()


def clickhouse(statement):
    import chdb
    found = json.loads(str(chdb.query(statement, "JSONCompact")))
    return [[float(it) if kind["type"].startswith("UInt") else it
             for it, kind in zip(row, found["meta"])] for row in found["data"]]


sessions = []


def datafusion(statement):
    from datafusion import SessionContext
    if not sessions:
        sessions.append(SessionContext())
    frame = sessions[0].sql(statement)
    if "create external table" in statement:
        return None
    return [list(row.values()) for batch in frame.collect() for row in batch.to_pylist()]


run = {"DuckDB": duckdb, "ClickHouse": clickhouse, "DataFusion": datafusion}[engine]
results = [run(statement) for statement in statements]
json.dump([rows for rows in results if rows is not None], sys.stdout)
