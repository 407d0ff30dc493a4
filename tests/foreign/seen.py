"""Reads or writes what the crawlers know of a URL, from the contract of the seen URLs alone, and tells it as a line of JSON.

seen.py REDIS_URL PREFIX mark URL SECONDS     crawled just now: not to be crawled again for so long
seen.py REDIS_URL PREFIX read URL
seen.py REDIS_URL PREFIX spoil URL            writes a value that nobody can read, without a time to live
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
    lasts = int(more[0]) * 1000
    seconds, micros = client.time()
    now = seconds * 1000 + micros // 1000
    client.set(key, f"s{now + lasts},{now}:a-stranger", px=lasts)
if call == "spoil":
    client.set(key, b"\xff junk")
value = client.get(key)
told = {"key": key, "value": None, "left": client.pttl(key)}
parts = re.fullmatch(rb"([cs])(\d+)(?:,(\d+))?:(.*)", value or b"", re.DOTALL)
if parts:
    kind, until, at, owner = parts.groups()
    told["value"] = {
        "seen": kind == b"s",
        "until": int(until),
        "at": at and int(at),
        "owner": owner.decode(),
    }
print(json.dumps(told))
