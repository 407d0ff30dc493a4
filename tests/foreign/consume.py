"""Consumes a queue as a program would that was written from the contract alone.

consume.py PORT VHOST QUEUE SCHEMA

Who it is, the variables RABBITMQ_USER and RABBITMQ_PASSWORD say. Each message becomes a line of JSON on the standard output
and is acknowledged. It goes on until its standard input has ended and the queue is empty.
"""

import base64
import json
import os
import sys
import threading

import jsonschema
import pika


def main():
    port, vhost, queue, schema = sys.argv[1:]
    with open(schema, encoding="utf-8") as file:
        schema = json.load(file)
    validator = jsonschema.Draft7Validator(schema, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER)
    credentials = pika.PlainCredentials(os.environ["RABBITMQ_USER"], os.environ["RABBITMQ_PASSWORD"])
    address = pika.ConnectionParameters("127.0.0.1", int(port), vhost, credentials)
    connection = pika.BlockingConnection(address)
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    channel.basic_qos(prefetch_count=20)
    say({"declared": queue})

    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    asked_to_end = False
    for method, properties, body in channel.consume(queue, inactivity_timeout=0.1):
        if method is not None:
            say(shown(validator, method, properties, body))
            channel.basic_ack(method.delivery_tag)
        elif over.is_set():
            # Nothing came, and nothing is ready: what there was has been read. Asked twice, since what was on its way
            # here when the queue was first found empty has come by the second time.
            empty = channel.queue_declare(queue, durable=True).method.message_count == 0
            if empty and asked_to_end:
                break
            asked_to_end = empty
    connection.close()


def shown(validator, method, properties, body):
    """A message with everything that a reader can see of it."""
    seen = {
        "exchange": method.exchange,
        "routing_key": method.routing_key,
        "redelivered": method.redelivered,
        "properties": {name: value for name, value in vars(properties).items() if value is not None},
        "base64": base64.b64encode(body).decode(),
    }
    try:
        message = json.loads(body.decode("utf-8"))
        # Python takes halves of characters, which no UTF-8 can say.
        json.dumps(message, ensure_ascii=False).encode()
        seen["body"] = message
        seen["problems"] = [problem.message for problem in validator.iter_errors(message)]
    except ValueError as problem:
        seen["problems"] = [str(problem)]
    return seen


def say(line):
    print(json.dumps(line, default=str), flush=True)


main()
