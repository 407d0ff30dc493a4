"""Crawls a site with Scrapy, title and text to JSON lines: crawl.py START OUT IN_FLIGHT."""

import json
import sys
from urllib.parse import urlsplit

import scrapy
from scrapy.crawler import CrawlerProcess

START, OUT, IN_FLIGHT = sys.argv[1], sys.argv[2], int(sys.argv[3])


class Pages(scrapy.Spider):
    name = "pages"
    allowed_domains = [urlsplit(START).hostname]

    # With `start_urls` the first page would be crawled again when a link leads to it.
    async def start(self):
        yield scrapy.Request(START)

    def parse(self, response):
        text = response.xpath("//body//text()[not(ancestor::script or ancestor::style)]").getall()
        line = {
            "url": response.url,
            "title": response.xpath("//title/text()").get(default=""),
            "text": " ".join(" ".join(text).split()),
        }
        lines.write(json.dumps(line) + "\n")
        yield from response.follow_all(css="a")


with open(OUT, "w") as lines:
    process = CrawlerProcess(
        {
            "CONCURRENT_REQUESTS": IN_FLIGHT,
            "CONCURRENT_REQUESTS_PER_DOMAIN": IN_FLIGHT,
            "DOWNLOAD_DELAY": 0,
            "AUTOTHROTTLE_ENABLED": False,
            "ROBOTSTXT_OBEY": True,
            "TELNETCONSOLE_ENABLED": False,
            "LOG_LEVEL": "ERROR",
        }
    )
    process.crawl(Pages)
    process.start()
