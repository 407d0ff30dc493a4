"""Asks for URLs on `url_inventory` as a program would that was written from the contract alone.

ask_for.py PORT VHOST ID=URL…

Who it is, the variables RABBITMQ_USER and RABBITMQ_PASSWORD say. The queue is declared as the contract has it: durable, with room
for 1000, and what is above is rejected. Each message is told as a line of JSON once the server has confirmed it.
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
