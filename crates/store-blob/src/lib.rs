//! Blobs in a directory, and in a bucket of S3.
//!
//! ```text
//! directory/   files with sidecars, signed links of the gateway, sweeper
//! s3/          objects of a bucket, presigned links, lifecycle rules
//! ```

mod directory;
#[cfg(feature = "s3")]
mod s3;

pub use directory::{DirectoryBlobs, DirectoryOptions};
#[cfg(feature = "s3")]
pub use s3::{S3Blobs, S3Options, StaticCredentials, endpoint_problem};
