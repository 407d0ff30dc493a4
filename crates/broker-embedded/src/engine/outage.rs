//! A disk that cannot be written: since the last write failed, and until one succeeds or a look shows that it is over.

use super::{Engine, log::Spare};
use crate::segment;
use crawlway_broker::BrokerError;
use std::io;

/// How much is written to see whether writing works again, in bytes.
const SAMPLE: u64 = 4 << 10;
/// How large a spare is that is made to see that. Small, so that it is there for little on a disk that was full.
const SMALL_SPARE: u64 = 64 << 10;

impl Engine {
    /// Says no when the last write failed, or when the disk has less room than is held back on it.
    pub(crate) fn takes_messages(&self) -> Result<(), BrokerError> {
        self.state.lock().check_open()?;
        if let Some(why) = self.outage.lock().clone() {
            return Err(BrokerError::Unavailable { detail: why });
        }
        let free = self.disk.free().map_err(|error| self.unavailable(&error))?;
        if free < self.sizes.reserve || self.state.lock().is_short_of_disk() {
            return Err(self.unavailable(&io::ErrorKind::StorageFull.into()));
        }
        Ok(())
    }

    /// Notes how the last write went.
    pub(super) fn note_outage(&self, why: Option<String>) {
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

    /// After a failed write, writes something that nobody needs, to see whether that works again. Who is told that nothing is
    /// taken publishes nothing, and nobody would find out.
    pub(crate) fn look_whether_it_is_over(&self) {
        if self.outage.lock().is_none() {
            return;
        }
        let written = self.write_sample();
        self.note_outage(written.err().map(|error| self.explain(&error)));
    }

    fn write_sample(&self) -> io::Result<()> {
        let mut log = self.log.lock();
        if let Some(spare) = log.spares.last() {
            // Nothing in a spare is needed.
            let sample = vec![0; usize::try_from(SAMPLE.min(spare.size)).unwrap_or_default()];
            return spare
                .file
                .write_at(&sample, spare.size - sample.len() as u64)
                .and_then(|()| spare.file.sync());
        }
        let (number, size) = (log.next_spare, SMALL_SPARE.min(self.sizes.first_segment));
        log.next_spare += 1;
        let file = segment::create_spare(&*self.disk, number, size, self.sizes.reserve)?;
        log.spares.push(Spare { number, file, size });
        Ok(())
    }
}
