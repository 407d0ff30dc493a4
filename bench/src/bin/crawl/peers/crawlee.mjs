// Crawls a site with Crawlee and Cheerio, title and text to JSON lines: crawl.mjs START OUT IN_FLIGHT.

import { createWriteStream } from "node:fs";
import { once } from "node:events";
import { CheerioCrawler, Configuration, log, LogLevel } from "@crawlee/cheerio";

const [start, out, inFlight] = process.argv.slice(2);
log.setLevel(LogLevel.ERROR);
const lines = createWriteStream(out);

const crawler = new CheerioCrawler(
    {
        minConcurrency: Number(inFlight),
        maxConcurrency: Number(inFlight),
        respectRobotsTxtFile: true,
        async requestHandler({ $, request, enqueueLinks }) {
            const title = $("title").text();
            $("script, style").remove();
            const text = $("body").text().replace(/\s+/g, " ").trim();
            lines.write(JSON.stringify({ url: request.loadedUrl, title, text }) + "\n");
            await enqueueLinks({ strategy: "same-hostname" });
        },
    },
    // Its queue in memory, which is the fastest it has.
    new Configuration({ persistStorage: false }),
);
await crawler.run([start]);
lines.end();
await once(lines, "finish");
