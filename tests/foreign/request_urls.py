"""Third-party client, written from the contract alone: publishes URLs to `url_inventory`.

request_urls.py PORT VHOST ID=URL…

Credentials come from the variables RABBITMQ_USER and RABBITMQ_PASSWORD. The queue is declared as in the
contract: durable, with a maximum length of 1000 and reject-publish. Prints a line of JSON for each confirmed message.
"""

import datetime
import json
import os
import sys

import pika

QUEUE = "url_inventory"


def main():
    port, vhost, *asked = sys.argv[1:]
    credentials = pika.PlainCredentials(os.environ["RABBITMQ_USER"], os.environ["RABBITMQ_PASSWORD"])
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", int(port), vhost, credentials))
    channel = connection.channel()
    arguments = {"x-max-length": 1000, "x-overflow": "reject-publish"}
    channel.queue_declare(QUEUE, durable=True, arguments=arguments)
    channel.confirm_delivery()
    for one in asked:
        message_id, url = one.split("=", 1)
        now = datetime.datetime.now(datetime.timezone.utc).isoformat()
        message = {"url": url, "requested_at": now, "message_id": message_id}
        # Raises if the server rejects it.
        channel.basic_publish("", QUEUE, json.dumps(message).encode(), pika.BasicProperties(delivery_mode=2), mandatory=True)
        print(json.dumps(message), flush=True)
    connection.close()


main()
