//! Disk outage: from a failed write until a write or a probe succeeds.

use super::{Engine, log::SpareFile};
use crate::segment;
use crawlway_broker::BrokerError;
use std::io;

/// Size of a probe write, in bytes.
const PROBE_SIZE: u64 = 4 << 10;
/// Size of a spare file created as a probe, in bytes. Small, so that it fits on a disk that was full.
const PROBE_SPARE_SIZE: u64 = 64 << 10;

impl Engine {
    /// Fails after a failed write, or if less than the reserve is free.
    pub(crate) fn accepts_publishes(&self) -> Result<(), BrokerError> {
        self.state.lock().check_open()?;
        if let Some(why) = self.outage.lock().clone() {
            return Err(BrokerError::Unavailable { detail: why });
        }
        let free = self.disk.free().map_err(|error| self.unavailable(&error))?;
        if free < self.sizes.reserve || self.state.lock().reserve.missing {
            return Err(self.unavailable(&io::ErrorKind::StorageFull.into()));
        }
        Ok(())
    }

    /// Records the result of a write.
    pub(super) fn set_outage(&self, why: Option<String>) {
        let mut outage = self.outage.lock();
        match (&*outage, &why) {
            (None, Some(why)) => {
                tracing::error!(directory = %self.disk.path().display(), why, "the queue cannot be written");
            }
            (Some(_), None) => tracing::info!("the queue can be written again"),
            _ => {}
        }
        *outage = why;
    }

    /// Probes the disk after a failed write, since clients may not publish while health reports an outage.
    pub(crate) fn probe_disk(&self) {
        if self.outage.lock().is_none() {
            return;
        }
        let written = self.write_probe();
        self.set_outage(written.err().map(|error| self.explain(&error)));
    }

    fn write_probe(&self) -> io::Result<()> {
        let mut log = self.log.lock();
        if let Some(spare) = log.spares.last() {
            // The contents of a spare are irrelevant.
            let sample = vec![0; usize::try_from(PROBE_SIZE.min(spare.size)).unwrap_or_default()];
            return spare
                .file
                .write_at(&sample, spare.size - sample.len() as u64)
                .and_then(|()| spare.file.sync());
        }
        let (number, size) = (log.next_spare, PROBE_SPARE_SIZE.min(self.sizes.first_segment));
        log.next_spare += 1;
        let file = segment::create_spare(&*self.disk, number, size, self.sizes.reserve)?;
        log.spares.push(SpareFile { number, file, size });
        Ok(())
    }
}
