//! Private Kafka of one test, which may kill and restart it: one node, or three.

use crate::{
    certificates::{Certificates, HOST},
    server_process::{ServerProcess, free_ports},
    servers::address,
};
use std::{
    ffi::OsString,
    io::{Read, Write},
    net::{Ipv4Addr, TcpStream},
    path::Path,
    process::Command,
    time::Duration,
};
use tempfile::TempDir;

/// Environment variable with the folder of Kafka and its start script.
pub const KAFKA_HOME: &str = "CRAWLWAY_TEST_KAFKA_HOME";

/// Environment variable with the path of Java.
pub const JAVA: &str = "CRAWLWAY_TEST_JAVA";

/// User with the password [`PASSWORD`] on a server of [`PrivateKafka::start_secured`], with every mechanism.
pub const USER: &str = "ann";

/// Password of [`USER`].
pub const PASSWORD: &str = "correct-horse";

/// Private node of Kafka. It is killed on drop, or with the process.
#[derive(Debug)]
pub struct PrivateKafka {
    running: Option<ServerProcess>,
    folder: TempDir,
    /// Of clients, the controller, and further listeners.
    ports: Vec<u16>,
}

impl PrivateKafka {
    /// Starts an empty server on free ports, with further lines of `server.properties`.
    ///
    /// # Panics
    /// If there is no Kafka, or it does not start.
    pub fn start(settings: &str) -> Self {
        Self::start_with(|_| settings.to_owned())
    }

    /// As [`Self::start`], with settings for three ports: of clients without a password, of the controller, and of a further
    /// listener.
    ///
    /// # Panics
    /// If there is no Kafka, or it does not start.
    pub fn start_with(settings: impl FnOnce(&[u16]) -> String) -> Self {
        let ports = free_ports(3);
        let settings = settings(&ports);
        let mut kafka = Self::new(ports, &settings);
        kafka.restart();
        kafka
    }

    /// Address of the further listener, which a restart does not change.
    pub fn further_address(&self) -> String {
        format!("127.0.0.1:{}", self.ports[2])
    }

    /// Starts an empty server with further listeners, at [`HOST`]: with TLS and client certificates, with
    /// SASL, and with SASL and TLS.
    ///
    /// # Panics
    /// If there is no Kafka, or it does not start.
    pub fn start_secured(certificates: &Certificates) -> Self {
        let ports = free_ports(5);
        let [clients, controller, tls, sasl, sasl_tls] = ports[..] else { unreachable!("five ports") };
        let (server, ca) = (certificates.path("server-both.pem"), certificates.path("ca.pem"));
        let mut settings = format!(
            "listeners=CLIENTS://127.0.0.1:{clients},CONTROLLER://127.0.0.1:{controller},TLS://127.0.0.1:{tls},\
             SASL://127.0.0.1:{sasl},SASLTLS://127.0.0.1:{sasl_tls}\n\
             advertised.listeners=CLIENTS://127.0.0.1:{clients},TLS://{HOST}:{tls},SASL://{HOST}:{sasl},\
             SASLTLS://{HOST}:{sasl_tls}\n\
             listener.security.protocol.map=CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,SASL:SASL_PLAINTEXT,\
             SASLTLS:SASL_SSL\n\
             ssl.keystore.type=PEM\nssl.keystore.location={}\n\
             ssl.truststore.type=PEM\nssl.truststore.location={}\n\
             listener.name.tls.ssl.client.auth=required\n\
             sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n",
            server.display(),
            ca.display()
        );
        let module = "org.apache.kafka.common.security";
        for listener in ["sasl", "sasltls"].map(|listener| format!("listener.name.{listener}")) {
            settings += &format!(
                "{listener}.plain.sasl.jaas.config={module}.plain.PlainLoginModule required user_{USER}=\"{PASSWORD}\";\n"
            );
            for hash in ["256", "512"] {
                settings += &format!(
                    "{listener}.scram-sha-{hash}.sasl.jaas.config={module}.scram.ScramLoginModule required;\n"
                );
            }
        }
        let mut kafka = Self::new(ports, &settings);
        let user = |hash: &str| format!("SCRAM-SHA-{hash}=[name={USER},password={PASSWORD}]");
        kafka.format(&["--add-scram", &user("256"), "--add-scram", &user("512")]);
        kafka.restart();
        kafka
    }

    /// Starts an empty cluster of three nodes, with three replicas of which two must be in sync.
    ///
    /// # Panics
    /// If there is no Kafka, or it does not start.
    pub fn start_cluster() -> [Self; 3] {
        let ports = free_ports(6);
        let voters: Vec<String> =
            (0..3).map(|node| format!("{}@127.0.0.1:{}", node + 1, ports[2 * node + 1])).collect();
        let mut nodes = [0, 1, 2].map(|node| {
            let settings = format!(
                "node.id={}\ncontroller.quorum.voters={}\ndefault.replication.factor=3\nmin.insync.replicas=2\n\
                 offsets.topic.replication.factor=3\n",
                node + 1,
                voters.join(",")
            );
            Self::new(ports[2 * node..2 * node + 2].to_vec(), &settings)
        });
        // None is up before two of them run.
        std::thread::scope(|scope| {
            for node in &mut nodes {
                scope.spawn(|| {
                    node.format(&[]);
                    node.restart();
                });
            }
        });
        nodes
    }

    fn new(ports: Vec<u16>, settings: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("settings"), settings).expect("writing the settings");
        Self { running: None, folder, ports }
    }

    /// Address of the server, which a restart does not change.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.ports[0])
    }

    /// Addresses of the listeners of a secured server: with TLS, with SASL, and with both.
    pub fn secured_addresses(&self) -> [String; 3] {
        [2, 3, 4].map(|listener: usize| format!("{HOST}:{}", self.ports[listener]))
    }

    /// Kills the server with SIGKILL.
    pub fn kill(&mut self) {
        drop(self.running.take());
    }

    /// Restarts the server after a kill, with its data.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart(&mut self) {
        assert!(self.running.is_none(), "the server is running");
        let log = self.folder.path().join("output");
        let mut server = Command::new("sh");
        server
            .args(["-c", r#"log=$1; shift; exec sh "$@" > "$log" 2>&1"#, "sh"])
            .arg(&log)
            .args(self.script_arguments());
        let port = self.ports[0];
        self.running = Some(ServerProcess::start(&server, &log, || is_up(port).is_ok_and(|up| up)));
    }

    /// Formats the data directory with options of the storage tool.
    fn format(&self, options: &[&str]) {
        let mut script = Command::new("sh");
        let formatted = script.args(self.script_arguments()).arg("format").args(options).output();
        let formatted = formatted.expect("a shell");
        assert!(formatted.status.success(), "{}", String::from_utf8_lossy(&formatted.stderr));
    }

    fn script_arguments(&self) -> Vec<OsString> {
        let home = address(KAFKA_HOME);
        vec![
            Path::new(&home).join("start-kafka").into(),
            self.folder.path().join("server").into(),
            home.into(),
            address(JAVA).into(),
            self.ports[0].to_string().into(),
            self.ports[1].to_string().into(),
            self.folder.path().join("settings").into(),
        ]
    }
}

/// Whether the server answers a request for the metadata of no topic with a broker.
fn is_up(port: u16) -> std::io::Result<bool> {
    // Length; Metadata, version 1, correlation id 7, no client id; no topics.
    const REQUEST: [u8; 18] = [0, 0, 0, 14, 0, 3, 0, 1, 0, 0, 0, 7, 0xff, 0xff, 0, 0, 0, 0];
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(&REQUEST)?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    Ok(head[11] > 0)
}
