"""Third-party client, written from the contract alone: publishes versions of the same pages to `crawler_queue`.

versions.py PORT VHOST COUNT VERSION…

Credentials come from the variables RABBITMQ_USER and RABBITMQ_PASSWORD. All pages of a version are published before those of the next;
each version is a day younger than the one before. Prints the number of messages as a line of JSON.
"""

import json
import os
import sys

import pika


def main():
    port, vhost, count, *versions = sys.argv[1:]
    credentials = pika.PlainCredentials(os.environ["RABBITMQ_USER"], os.environ["RABBITMQ_PASSWORD"])
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", int(port), vhost, credentials))
    channel = connection.channel()
    channel.queue_declare("crawler_queue", durable=True)
    channel.confirm_delivery()
    published = 0
    for version in versions:
        for number in range(int(count)):
            page = {
                "url": f"https://versions.test/{number:04}",
                "text": f"version{version}",
                "metadata": {"title": "", "timestamp": f"2026-01-0{version}T09:30:00Z", "status_code": 200},
            }
            channel.basic_publish("", "crawler_queue", json.dumps(page).encode(), pika.BasicProperties(delivery_mode=2))
            published += 1
    print(json.dumps({"published": published}), flush=True)
    connection.close()


main()
