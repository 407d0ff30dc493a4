//! TLS of clients: CA, client certificate and key from PEM files, and errors that name the setting.
//!
//! ```text
//! roots.rs     root certificates: Mozilla's, or those of a PEM file
//! files.rs     the files of one server's settings, read and checked without a connection
//! client.rs    a TLS client with these files, and its connections
//! advice.rs    what to do about an error of a handshake
//! ```
//!
//! The crypto provider is aws-lc-rs, named wherever a configuration is built. The certificate of a server is always verified:
//! its chain, its dates and its host name.

mod advice;
mod client;
mod files;
mod roots;

pub use client::{ClientTls, Stream, dial};
pub use files::{TlsError, TlsFiles};
pub use roots::{RootError, check_roots, config_with_roots};
