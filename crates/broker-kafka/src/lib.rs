//! The queue contract on Apache Kafka.
