"""Third-party client, written from the contract alone: consumes a queue.

consume.py PORT VHOST QUEUE SCHEMA

Credentials come from the variables RABBITMQ_USER and RABBITMQ_PASSWORD. Prints each message as a line of
JSON and acknowledges it, until standard input has ended and the queue is empty.
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
    was_empty = False
    for method, properties, body in channel.consume(queue, inactivity_timeout=0.1):
        if method is not None:
            say(shown(validator, method, properties, body))
            channel.basic_ack(method.delivery_tag)
        elif over.is_set():
            # The queue must be empty twice, since messages may be in flight to this client at the first check.
            empty = channel.queue_declare(queue, durable=True).method.message_count == 0
            if empty and was_empty:
                break
            was_empty = empty
    connection.close()


def shown(validator, method, properties, body):
    """A message with its properties, and the problems by the schema."""
    seen = {
        "exchange": method.exchange,
        "routing_key": method.routing_key,
        "redelivered": method.redelivered,
        "properties": {name: value for name, value in vars(properties).items() if value is not None},
        "base64": base64.b64encode(body).decode(),
    }
    try:
        message = json.loads(body.decode("utf-8"))
        # Python accepts lone surrogates, which have no UTF-8 encoding.
        json.dumps(message, ensure_ascii=False).encode()
        seen["body"] = message
        seen["problems"] = [problem.message for problem in validator.iter_errors(message)]
    except ValueError as problem:
        seen["problems"] = [str(problem)]
    return seen


def say(line):
    print(json.dumps(line, default=str), flush=True)


main()
