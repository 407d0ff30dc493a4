#!/bin/sh
# Runs a node of Apache Kafka in the foreground. The testkit uses it for private servers, too.
# Arguments: data directory, installation, java, port of clients, port of the controller, file with further settings or "",
# then options of java, or `format` and options of the storage tool.
set -eu
data=$1 kafka=$2 java=$3 port=$4 controller=$5 more=$6
shift 6
mkdir -p "$data"
# A formatted directory is copied: formatting takes a JVM of its own.
[ "${1-}" = format ] || [ -e "$data/log/meta.properties" ] || [ ! -e "$kafka/formatted" ] || cp -r "$kafka/formatted" "$data/log"
cat > "$data/server.properties" <<END
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$controller
controller.listener.names=CONTROLLER
listeners=CLIENTS://127.0.0.1:$port,CONTROLLER://127.0.0.1:$controller
advertised.listeners=CLIENTS://127.0.0.1:$port
listener.security.protocol.map=CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=CLIENTS
log.dirs=$data/log
auto.create.topics.enable=false
offsets.topic.num.partitions=3
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
# Thousands of small topics: their index files are allocated in full.
log.index.size.max.bytes=65536
log.segment.delete.delay.ms=1000
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
# After SIGKILL a server waits for the end of its own old session; on a busy machine it must not lose a living one.
broker.session.timeout.ms=6000
broker.heartbeat.interval.ms=500
END
[ -z "$more" ] || cat "$more" >> "$data/server.properties"
cat > "$data/log4j2.properties" <<END
rootLogger.level=warn
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %m (%c)%n
END
# The class data archive is only used with the class path in the same order.
classes=$(printf '%s:' "$kafka"/jars/*.jar)
run() {
    exec "$java" -Xms128m -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 "-Dlog4j2.configurationFile=$data/log4j2.properties" \
        -cp "$classes" "$@"
}
if [ "${1-}" = format ]; then
    shift
    run kafka.tools.StorageTool format -t crawlway-test-0000000Q -c "$data/server.properties" "$@"
fi
[ ! -e "$kafka/classes.jsa" ] || set -- "-XX:SharedArchiveFile=$kafka/classes.jsa" -Xshare:auto "$@"
run "$@" kafka.Kafka "$data/server.properties"
