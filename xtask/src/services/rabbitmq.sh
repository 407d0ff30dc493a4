#!/bin/sh
# Runs a RabbitMQ of its own in the foreground, on loopback only, until it is told to stop with SIGTERM.
#
# start-rabbitmq FOLDER PROGRAMS AMQP MANAGEMENT DISTRIBUTION EPMD
#
# FOLDER holds its data and outlives it, so that a second run goes on where the first one ended. PROGRAMS is the folder
# of rabbitmq-server; the last four are ports. The tests start servers with this too, to kill them as they like; with
# LIFELINE set, the server ends when the standard input does, so that it does not outlive a test that was killed, and with
# DISK_FREE_LIMIT set it takes no publishes unless so much is free.
set -u
folder=$1 programs=$2 amqp=$3 management=$4 distribution=$5 epmd=$6

mkdir -p "$folder/home" "$folder/mnesia" "$folder/log"
cat > "$folder/rabbitmq.conf" <<CONF
listeners.tcp.1 = 127.0.0.1:$amqp
management.tcp.ip = 127.0.0.1
management.tcp.port = $management
vm_memory_high_watermark.absolute = 2GiB
disk_free_limit.absolute = ${DISK_FREE_LIMIT:-50MB}
log.console = true
log.console.level = info
log.file = false
CONF
echo '[rabbitmq_management].' > "$folder/enabled_plugins"

export HOME="$folder/home"
export ERL_EPMD_PORT="$epmd" ERL_EPMD_ADDRESS=127.0.0.1
export RABBITMQ_NODENAME=crawlway@localhost
export RABBITMQ_CONF_ENV_FILE=/dev/null
export RABBITMQ_CONFIG_FILE="$folder/rabbitmq.conf"
export RABBITMQ_ENABLED_PLUGINS_FILE="$folder/enabled_plugins"
export RABBITMQ_MNESIA_BASE="$folder/mnesia"
export RABBITMQ_LOG_BASE="$folder/log"
export RABBITMQ_GENERATED_CONFIG_DIR="$folder/generated"
export RABBITMQ_PID_FILE="$folder/rabbit.pid"
export RABBITMQ_DIST_PORT="$distribution"
export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {127,0,0,1}'

# The server would start one that outlives it. This one is in our process group, and ends with us.
epmd -port "$epmd" -address 127.0.0.1 &
names=$!
"$programs/rabbitmq-server" &
server=$!
trap 'kill -TERM "$server" 2>/dev/null' TERM INT HUP
if [ -n "${LIFELINE:-}" ]; then
    exec 3<&0
    (cat <&3 >/dev/null; kill -TERM $$) 2>/dev/null &
fi
# A trapped signal ends a wait before its time.
while kill -0 "$server" 2>/dev/null; do
    wait "$server"
    status=$?
done
# Waited for, so that its port is free for the next run.
kill "$names" 2>/dev/null
wait "$names" 2>/dev/null
exit "$status"
