"""Third-party client, written from the contract of seen URLs alone: reads or writes the key of a URL, and prints it as JSON.

seen.py REDIS_URL PREFIX mark URL SECONDS     marks the URL as crawled now, with this TTL
seen.py REDIS_URL PREFIX read URL
seen.py REDIS_URL PREFIX spoil URL            writes an invalid value without TTL
"""

import hashlib
import json
import re
import sys

import redis

address, prefix, call, url, *more = sys.argv[1:]
client = redis.Redis.from_url(address)
key = f"{{{prefix}}}:seen:{hashlib.sha256(url.encode()).hexdigest()[:32]}"
if call == "mark":
    ttl = int(more[0]) * 1000
    seconds, micros = client.time()
    now = seconds * 1000 + micros // 1000
    client.set(key, f"s{now + ttl},{now}:third-party", px=ttl)
if call == "spoil":
    client.set(key, b"\xff junk")
value = client.get(key)
printed = {"key": key, "value": None, "left": client.pttl(key)}
parts = re.fullmatch(rb"([cs])(\d+)(?:,(\d+))?:(.*)", value or b"", re.DOTALL)
if parts:
    kind, until, at, owner = parts.groups()
    printed["value"] = {
        "seen": kind == b"s",
        "until": int(until),
        "at": at and int(at),
        "owner": owner.decode(),
    }
print(json.dumps(printed))
