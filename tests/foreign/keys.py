"""Prints every Redis key whose name contains a text as a line of JSON: name, type, TTL in milliseconds.

keys.py URL TEXT
"""

import json
import sys

import redis

url, text = sys.argv[1:]
client = redis.Redis.from_url(url, decode_responses=True)
for key in client.scan_iter(match=f"*{text}*", count=1000):
    print(json.dumps({"key": key, "type": client.type(key), "left": client.pttl(key)}))
