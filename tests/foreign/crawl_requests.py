"""Third-party gateway and worker of the flow `requests`, written from the contract alone, over Redis and AMQP or Kafka.

crawl_requests.py BROKER worker COUNT              answers COUNT requests
crawl_requests.py BROKER gateway REDIS EMAIL URL…  requests URLs, and prints each hash value once it has ended
crawl_requests.py BROKER read TOPIC EMAIL COUNT    prints COUNT messages of a user
crawl_requests.py BROKER publish TOPIC MESSAGE…    publishes messages, see `publish`
crawl_requests.py BROKER create BYTES TOPIC…       creates topics with a maximum size of messages; Kafka alone

BROKER is `PORT VHOST` of a RabbitMQ, with credentials in the variables RABBITMQ_USER and RABBITMQ_PASSWORD, or `kafka ADDRESS`.
Prints lines of JSON.
"""

import datetime
import json
import os
import sys
import time
import uuid

REQUESTS = "crawl-requests"
RESPONSES = "crawl-responses"
HEADERS = ("id", "email", "createdAt")


def say(line):
    print(json.dumps(line), flush=True)


class Amqp:
    """Queues without keys. The headers are a table."""

    def __init__(self, port, vhost):
        import pika

        self.pika = pika
        credentials = pika.PlainCredentials(os.environ["RABBITMQ_USER"], os.environ["RABBITMQ_PASSWORD"])
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", int(port), vhost, credentials))
        self.channel = connection.channel()
        for queue in (REQUESTS, RESPONSES):
            self.channel.queue_declare(queue, durable=True)
        self.channel.confirm_delivery()

    def publish(self, queue, _key, headers, body):
        properties = self.pika.BasicProperties(delivery_mode=2, headers=dict(headers))
        self.channel.basic_publish("", queue, body, properties, mandatory=True)

    def consume(self, queue):
        """Yields key, headers, body and the function that settles the message."""
        for method, properties, body in self.channel.consume(queue):
            yield None, list(properties.headers.items()), body, lambda tag=method.delivery_tag: self.channel.basic_ack(tag)


class Kafka:
    """Topics. The headers are a list, in which names may repeat."""

    def __init__(self, _kind, servers):
        import confluent_kafka

        self.library = confluent_kafka
        self.client = {"bootstrap.servers": servers}
        self.producer = confluent_kafka.Producer(
            self.client | {"enable.idempotence": True, "message.max.bytes": 64 << 20}
        )

    def publish(self, topic, key, headers, body):
        errors = []
        self.producer.produce(topic, body, key, headers=headers, on_delivery=lambda error, _: errors.append(error))
        self.producer.flush()
        assert errors == [None], errors

    def consume(self, topic):
        """Yields key, headers, body and the function that settles the message."""
        group = {"group.id": f"third-party-{uuid.uuid4()}", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = self.library.Consumer(self.client | group)
        consumer.subscribe([topic])
        while True:
            message = consumer.poll(1)
            if message is None:
                continue
            assert message.error() is None, message.error()
            headers = [(name, value.decode()) for name, value in message.headers()]
            key, settle = message.key().decode(), lambda: consumer.commit(message, asynchronous=False)
            yield key, headers, message.value(), settle

    def create(self, max_bytes, *topics):
        from confluent_kafka.admin import AdminClient, NewTopic

        config = {"max.message.bytes": max_bytes, "retention.ms": "-1"}
        admin = AdminClient(self.client)
        created = admin.create_topics([NewTopic(topic, 2, 1, config=config) for topic in topics])
        for topic, result in created.items():
            result.result()
            say({"created": topic})


def worker(broker, count):
    say({"ready": True})
    for number, (key, headers, body, settle) in enumerate(broker.consume(REQUESTS), 1):
        headers = {name: value for name, value in headers if name in HEADERS}
        request = json.loads(body)
        assert list(request) == ["url"], request
        answer = {"success": True, "scrapedData": "scraped " + request["url"]}
        if "fail" in request["url"]:
            answer = {"success": False, "errorMessage": "Request timed out"}
        broker.publish(RESPONSES, headers["id"], list(headers.items()), json.dumps(answer).encode())
        settle()
        say({"key": key, "headers": headers, "url": request["url"]})
        if number == int(count):
            break


def gateway(broker, redis_port, email, *urls):
    import redis

    store = redis.Redis(port=int(redis_port), decode_responses=True)
    ids = []
    for url in urls:
        request_id = str(uuid.uuid4())
        created = datetime.datetime.now(datetime.timezone.utc).isoformat()
        entity = {"id": request_id, "url": url, "email": email, "status": "pending", "result": None, "createdAt": created}
        store.hset("crawls:" + email, request_id, json.dumps(entity))
        headers = [("id", request_id), ("email", email), ("createdAt", created)]
        broker.publish(REQUESTS, request_id, headers, json.dumps({"url": url}).encode())
        ids.append(request_id)
    for request_id in ids:
        while True:
            value = json.loads(store.hget("crawls:" + email, request_id))
            if value["status"] != "pending":
                break
            time.sleep(0.1)
        say({"fields": list(value), "value": value})


def read(broker, topic, email, count):
    found = 0
    for key, headers, body, settle in broker.consume(topic):
        settle()
        if dict(headers).get("email") == email:
            found += 1
            say({"key": key, "headers": headers, "body": body.decode()})
        if found == int(count):
            break


def publish(broker, topic, *messages):
    """Messages are {"headers", "body"}: `headers` is an object or a list of pairs, `body` a text or null. Beside them there may be
    `key`, a text or null instead of the id; `hexKey`, a binary one; and `size` instead of a body."""
    for message in map(json.loads, messages):
        headers = message.get("headers") or {}
        headers = list(headers.items()) if isinstance(headers, dict) else [tuple(pair) for pair in headers]
        key = bytes.fromhex(message["hexKey"]) if "hexKey" in message else message.get("key", dict(headers).get("id"))
        body = b"x" * message["size"] if "size" in message else message["body"] and message["body"].encode()
        broker.publish(topic, key, headers, body)
        say({"published": topic})


def create(broker, max_bytes, *topics):
    broker.create(max_bytes, *topics)


FIRST, SECOND, MODE, *REST = sys.argv[1:]
BROKER = (Kafka if FIRST == "kafka" else Amqp)(FIRST, SECOND)
{"worker": worker, "gateway": gateway, "read": read, "publish": publish, "create": create}[MODE](BROKER, *REST)
