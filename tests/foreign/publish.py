"""Third-party client: publishes valid and invalid pages to `crawler_queue`.

publish.py PORT VHOST

Credentials come from the variables RABBITMQ_USER and RABBITMQ_PASSWORD. Prints each message as a line
of JSON: its name, its size, and either its URL, or a part of the reason of its dead letter.
"""

import datetime
import json
import os
import sys

import pika

PERSISTENT = pika.BasicProperties(delivery_mode=2, content_type="application/json")


def page(name, **changes):
    """A page like the example in the contract, and what is changed about it. None leaves a field out."""
    metadata = {
        "title": f"Foreign {name}",
        "description": "An example",
        "timestamp": "2025-11-01T12:00:00Z",
        "status_code": 200,
    }
    message = {"url": f"https://foreign.test/{name}", "text": f"example text zz{name}zz", "metadata": metadata}
    for field, value in changes.items():
        place = metadata if field in ("title", "description", "timestamp", "status_code") else message
        if value is None:
            del place[field]
        else:
            place[field] = value
    return message


def good():
    """(name, body, properties, URL in normal form)"""

    def one(name, message, properties=None, url=None, **how):
        body = json.dumps(message, **how).encode()
        return name, body, properties, url or f"https://foreign.test/{name}"

    yield one("plain", page("plain"))
    yield one("persistent", page("persistent"), PERSISTENT)
    yield one("transient", page("transient"), pika.BasicProperties(delivery_mode=1))
    everything = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={"x-tries": 3, "nested": {"list": [1, None, True, "two"]}, "when": datetime.datetime(2025, 11, 1)},
        delivery_mode=2,
        priority=9,
        correlation_id="c",
        reply_to="somewhere",
        expiration="3600000",
        message_id="third-party id/1",
        timestamp=1,
        type="page",
        app_id="third-party",
    )
    yield one("everything", page("everything"), everything)
    yield one("longid", page("longid"), pika.BasicProperties(message_id="i" * 255))
    yield one("oddid", page("oddid"), pika.BasicProperties(message_id="line\nbreak\tand é"))
    claims = {"x-crawlway-attempt": 99, "x-crawlway-dead-reason": "made up", "x-crawlway-not-before": "rubbish"}
    yield one("claims", page("claims"), pika.BasicProperties(headers=claims))
    yield one("extra", page("extra", html="<p>too</p>", lang=["en"], score={"a": 1.5}))
    yield one("deep", page("deep", nested=json.loads("[" * 90 + "]" * 90)))
    yield one("bare", page("bare", description=None, title=""))
    yield one("unicode", page("unicode", text="zzunicodezz größe 日本語 🦀", title="Zürich 🦀"), ensure_ascii=False)
    yield one("escaped", page("escaped", text="zzescapedzz größe 🦀 \t\n", title="Zürich 🦀"))
    yield one("nul", page("nul", text="zznulzz \0 in the middle", title="a\0b", description="\0"))
    yield one("pretty", page("pretty"), indent=4)
    yield one("float", page("float", status_code=200.0))
    yield one("upper", page("upper", text="Example Text ZZUPPERZZ"))
    spelled = "HTTPS://Foreign.TEST:443/a/../spelled?#fragment"
    yield one("spelled", page("spelled", url=spelled), url="https://foreign.test/spelled")
    yield one("large", page("large", text="zzlargezz " + "many words " * 500_000))
    yield one("redirected", page("redirected", status_code=203))
    times = {
        "utcnow": datetime.datetime(2025, 11, 1, 12, 0, 0, 123456).isoformat(),
        "isoformat": datetime.datetime(2025, 11, 1, 12, tzinfo=datetime.timezone.utc).isoformat(),
        "east": "2025-11-01T17:45:00+05:45",
        "minus": "2025-11-01T12:00:00-00:00",
        "nanos": "2025-11-01T12:00:00.123456789Z",
        "lower": "2025-11-01t12:00:00z",
        "leap": "2016-12-31T23:59:60Z",
        "blank": str(datetime.datetime(2025, 11, 1, 12, tzinfo=datetime.timezone.utc)),
        "future": "2999-01-01T00:00:00Z",
    }
    for name, time in times.items():
        yield one(name, page(name, timestamp=time))


def bad():
    """(name, body, properties, part of the reason)"""

    def one(name, message, reason, properties=None):
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return name, body, properties, reason

    yield one("empty", b"", "not JSON")
    yield one("words", b"not json at all", "not JSON")
    yield one("cut", json.dumps(page("cut")).encode()[:-1], "not JSON", PERSISTENT)
    yield one("two", json.dumps(page("two")).encode() * 2, "not JSON")
    yield one("surrogate", page("surrogate", text="\ud800"), "not JSON")
    yield one("repr", str(page("repr")).encode(), "not JSON")
    yield one("latin", json.dumps(page("latin", text="größe"), ensure_ascii=False).encode("latin-1"), "not UTF-8")
    yield one("utf16", json.dumps(page("utf16")).encode("utf-16"), "not UTF-8")
    yield one("list", [page("list")], "is a list; expected an object")
    yield one("null", b"null", "is null; expected an object")
    yield one("html", page("html", text=None, html="<p>as the seed's schema has it</p>"), "`text` is missing")
    yield one("nourl", page("nourl", url=None), "`url` is missing")
    yield one("nometa", page("nometa", metadata=None), "`metadata` is missing")
    yield one("notitle", page("notitle", title=None), "`metadata.title` is missing")
    yield one("textlist", page("textlist", text=["a", "b"]), "`text` is a list; expected a text")
    yield one("code", page("code", status_code="200"), '`metadata.status_code` is "200"', PERSISTENT)
    yield one("half", page("half", status_code=200.5), "`metadata.status_code` is 200.5")
    yield one("zero", page("zero", status_code=0), "expected 100 to 999")
    yield one("epoch", page("epoch", timestamp=1761998400), "`metadata.timestamp` is 1761998400")
    yield one("noday", page("noday", timestamp="2025-02-30T12:00:00Z"), "expected ISO 8601")
    yield one("yesterday", page("yesterday", timestamp="yesterday"), "expected ISO 8601")
    yield one("ftp", page("ftp", url="ftp://foreign.test/"), "`url` is not one")
    yield one("relative", page("relative", url="/page1"), "`url` is not one")
    yield one("huge", page("huge", text="x" * 20_000_000), "the limit is 16777216")


def main():
    port, vhost = sys.argv[1:]
    credentials = pika.PlainCredentials(os.environ["RABBITMQ_USER"], os.environ["RABBITMQ_PASSWORD"])
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", int(port), vhost, credentials))
    channel = connection.channel()
    channel.queue_declare("crawler_queue", durable=True)
    goods = [(message, {"url": message[3]}) for message in good()]
    bads = [(message, {"reason": message[3]}) for message in bad()]
    # Mixed, so that each invalid message is between valid ones.
    mixed = [one for pair in zip(goods, bads) for one in pair]
    mixed += goods[len(bads):] + bads[len(goods):]
    for (name, body, properties, _), expected in mixed:
        channel.basic_publish("", "crawler_queue", body, properties)
        print(json.dumps({"name": name, "size": len(body), **expected}), flush=True)
    connection.close()


main()
