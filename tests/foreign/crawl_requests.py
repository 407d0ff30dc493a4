"""Third-party gateway and worker of the flow `requests`, written from the contract alone, over AMQP and Redis.

crawl_requests.py PORT VHOST worker COUNT              answers COUNT requests
crawl_requests.py PORT VHOST gateway REDIS EMAIL URL…  requests URLs, and prints each hash value once it has ended
crawl_requests.py PORT VHOST publish QUEUE MESSAGE…    publishes messages: {"headers", "body"} or {"headers", "size"}

Credentials come from the variables RABBITMQ_USER and RABBITMQ_PASSWORD. Prints lines of JSON.
"""

import datetime
import json
import os
import sys
import time
import uuid

import pika

REQUESTS = "crawl-requests"
RESPONSES = "crawl-responses"


def say(line):
    print(json.dumps(line), flush=True)


def connect(port, vhost):
    credentials = pika.PlainCredentials(os.environ["RABBITMQ_USER"], os.environ["RABBITMQ_PASSWORD"])
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", int(port), vhost, credentials))
    channel = connection.channel()
    for queue in (REQUESTS, RESPONSES):
        channel.queue_declare(queue, durable=True)
    channel.confirm_delivery()
    return connection, channel


def publish(channel, queue, headers, body):
    properties = pika.BasicProperties(delivery_mode=2, headers=headers)
    channel.basic_publish("", queue, body, properties, mandatory=True)


def worker(port, vhost, count):
    connection, channel = connect(port, vhost)
    say({"ready": True})
    for number, (method, properties, body) in enumerate(channel.consume(REQUESTS), 1):
        headers = {name: properties.headers[name] for name in ("id", "email", "createdAt")}
        request = json.loads(body)
        assert list(request) == ["url"], request
        answer = {"success": True, "scrapedData": "scraped " + request["url"]}
        if "fail" in request["url"]:
            answer = {"success": False, "errorMessage": "Request timed out"}
        publish(channel, RESPONSES, headers, json.dumps(answer).encode())
        channel.basic_ack(method.delivery_tag)
        say({"headers": headers, "url": request["url"]})
        if number == int(count):
            break
    connection.close()


def gateway(port, vhost, redis_port, email, *urls):
    connection, channel = connect(port, vhost)
    store = RedisClient(int(redis_port))
    ids = []
    for url in urls:
        request_id = str(uuid.uuid4())
        created = datetime.datetime.now(datetime.timezone.utc).isoformat()
        entity = {"id": request_id, "url": url, "email": email, "status": "pending", "result": None, "createdAt": created}
        store.call("HSET", "crawls:" + email, request_id, json.dumps(entity))
        headers = {"id": request_id, "email": email, "createdAt": created}
        publish(channel, REQUESTS, headers, json.dumps({"url": url}).encode())
        ids.append(request_id)
    for request_id in ids:
        while True:
            value = json.loads(store.call("HGET", "crawls:" + email, request_id))
            if value["status"] != "pending":
                break
            time.sleep(0.1)
        say({"fields": list(value), "value": value})
    connection.close()


def publish_all(port, vhost, queue, *messages):
    connection, channel = connect(port, vhost)
    for message in map(json.loads, messages):
        body = message["body"].encode() if "body" in message else b"x" * message["size"]
        publish(channel, queue, message.get("headers"), body)
        say({"published": len(body)})
    connection.close()


class RedisClient:
    """Redis over its plain protocol, since two commands need no library."""

    def __init__(self, port):
        import socket

        self.stream = socket.create_connection(("127.0.0.1", port)).makefile("rwb")

    def call(self, *parts):
        parts = [part.encode() for part in parts]
        lines = b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        self.stream.write(lines)
        self.stream.flush()
        head = self.stream.readline()
        if head[:1] == b"$" and head[1:2] != b"-":
            return self.stream.read(int(head[1:]) + 2)[:-2].decode()
        assert head[:1] == b":", head
        return head


PORT, VHOST, MODE, *REST = sys.argv[1:]
{"worker": worker, "gateway": gateway, "publish": publish_all}[MODE](PORT, VHOST, *REST)
