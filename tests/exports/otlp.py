"""Sums what is in a file of OTLP profiles, by OpenTelemetry's own messages."""
import json
import os
import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.profiles.v1development.profiles_pb2 import ProfilesData

data = ProfilesData()
data.ParseFromString(open(sys.argv[1], "rb").read())
tables = data.dictionary
assert len(UnknownFieldSet(data)) == 0, "a field that the messages do not have"
texts = tables.string_table
assert texts[0] == "", "the first text is empty"
for table in (tables.mapping_table, tables.location_table, tables.function_table,
              tables.stack_table, tables.link_table, tables.attribute_table):
    assert table[0] == type(table[0])(), "the first entry stands for none"


def frames(stack):
    """Functions and modules, the innermost first."""
    for index in tables.stack_table[stack].location_indices:
        location = tables.location_table[index]
        for line in location.lines:
            name = texts[tables.function_table[line.function_index].name_strindex]
            path = texts[tables.mapping_table[location.mapping_index].filename_strindex]
            yield name + " " + os.path.basename(path)


def attributes(sample):
    pairs = [tables.attribute_table[index] for index in sample.attribute_indices]
    return {texts[pair.key_strindex]: pair.value for pair in pairs}


events = {}
for profile in data.resource_profiles[0].scope_profiles[0].profiles:
    functions = {}
    samples = weight = 0
    for sample in profile.samples:
        times = len(sample.timestamps_unix_nano)
        assert times in (0, len(sample.values)), "a value a time, if the recording has a wall clock"
        who = attributes(sample)
        assert who["process.pid"].int_value > 0 and who["thread.name"].string_value
        stack = list(frames(sample.stack_index))
        value, count = sum(sample.values), len(sample.values)
        weight += value
        samples += count
        for place, function in enumerate(dict.fromkeys(stack)):
            cost = functions.setdefault(function, [0, 0, 0, 0])
            cost[2] += value
            cost[3] += count
        if stack:
            functions[stack[0]][0] += value
            functions[stack[0]][1] += count
    name = texts[profile.sample_type.type_strindex]
    events[name] = {"functions": functions, "samples": samples, "weight": weight}
json.dump(events, sys.stdout)
