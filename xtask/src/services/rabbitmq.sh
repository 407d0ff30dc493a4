#!/bin/sh
# Runs a private RabbitMQ in the foreground, on loopback only, until SIGTERM.
#
# start-rabbitmq FOLDER PROGRAMS AMQP MANAGEMENT DISTRIBUTION EPMD
#
# FOLDER has the data, which a later run uses again. PROGRAMS is the folder of rabbitmq-server; the last four are ports. With
# LIFELINE set, the server stops at the end of standard input, so that it does not outlive a killed test. With DISK_FREE_LIMIT
# set, it blocks publishers below that free disk space. With TLS_FOLDER set, it also listens with the certificates of that
# folder on the ports TLS_AMQP and TLS_MANAGEMENT, for clients with a certificate.
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
if [ -n "${TLS_FOLDER:-}" ]; then
    echo "listeners.ssl.1 = 127.0.0.1:$TLS_AMQP"
    echo "management.ssl.ip = 127.0.0.1"
    echo "management.ssl.port = $TLS_MANAGEMENT"
    for options in ssl_options management.ssl; do
        echo "$options.cacertfile = $TLS_FOLDER/ca.pem"
        echo "$options.certfile = $TLS_FOLDER/server.pem"
        echo "$options.keyfile = $TLS_FOLDER/server.key"
        echo "$options.verify = verify_peer"
        echo "$options.fail_if_no_peer_cert = true"
    done
fi >> "$folder/rabbitmq.conf"
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

# The server would start an epmd that outlives it. This one is in the process group of the script.
epmd -port "$epmd" -address 127.0.0.1 &
names=$!
"$programs/rabbitmq-server" &
server=$!
trap 'kill -TERM "$server" 2>/dev/null' TERM INT HUP
if [ -n "${LIFELINE:-}" ]; then
    exec 3<&0
    (cat <&3 >/dev/null; kill -TERM $$) 2>/dev/null &
fi
# A trapped signal interrupts wait.
while kill -0 "$server" 2>/dev/null; do
    wait "$server"
    status=$?
done
# Waits, so that the port is free for the next run.
kill "$names" 2>/dev/null
wait "$names" 2>/dev/null
exit "$status"
