//! Recovery: rebuilds the engine from a directory after a shutdown, a crash or a disk error.

use crate::{
    catalog::Catalog,
    disk::{Disk, read_whole},
    engine::{Engine, LossHistory, MAX_FILE_SIZE, Sizes, State},
    error::OpenError,
    index::Slot,
    journal::{Event, Journal, JournalContents, JournaledState},
    record::{Kind, Losses, OWN_POSITION, PayloadSummary, Position, RecordHeader},
    reserve::Reserve,
    segment::{self, FileName, ScanItem, Segment, data_name, journal_name, spare_name},
};
use crawlway_broker::Timestamp;
use crawlway_clock::Anchor;
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    fmt, io,
    sync::Arc,
};

/// Number of dead-letter numbers reserved at a time.
pub(crate) const DEAD_LETTER_NUMBERS: u64 = 1000;

/// Folder for unreadable bytes, for inspection.
pub(crate) const QUARANTINE: &str = "set-aside";

/// Report of a recovery.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Number of messages, pending or dead.
    pub messages: u64,
    /// Number of deliveries in flight when the last process ended; their messages are suspect.
    pub lost_deliveries: u64,
    /// Bytes of a torn last commit, never confirmed to a publisher.
    pub torn_bytes: u64,
    /// Number of unreadable journal slots; messages they settled may be redelivered.
    pub damaged_journal_slots: u64,
    /// Unreadable ranges of the log, quarantined.
    pub damage: Vec<Damage>,
    /// Unreadable ranges at the end of the log, quarantined: most likely an unfinished write that was never confirmed.
    pub unfinished: Vec<Damage>,
}

/// An unreadable range of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Segment file.
    pub file: String,
    /// Offset in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// File in the queue directory with the saved bytes, if they could be saved.
    pub saved_as: Option<String>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { file, offset, bytes, .. } = self;
        write!(f, "{bytes} unreadable bytes at {offset} of `{file}`")?;
        match &self.saved_as {
            Some(name) => write!(f, ", saved as `{name}`"),
            None => write!(f, ", which could not be saved elsewhere"),
        }
    }
}

impl Damage {
    /// Saves unreadable bytes to the quarantine folder.
    pub(crate) fn save(disk: &dyn Disk, position: Position, bytes: &[u8]) -> Self {
        let name = format!("{QUARANTINE}/{:010}-{}.bin", position.segment, position.offset);
        let saved = disk.create(&name).and_then(|file| file.write_at(bytes, 0).and_then(|()| file.sync()));
        Damage {
            file: data_name(position.segment),
            offset: u64::from(position.offset),
            bytes: bytes.len() as u64,
            saved_as: saved.is_ok().then_some(name),
        }
    }
}

/// A recovered engine with its report.
pub(crate) struct Recovered {
    pub(crate) engine: Engine,
    pub(crate) report: Recovery,
}

/// Refuses a directory with files of other programs.
pub(crate) fn refuse_foreign_files(disk: &dyn Disk) -> Result<(), OpenError> {
    Files::list(disk).map(drop)
}

/// Recovers a directory. The caller holds its lock.
pub(crate) fn recover(
    disk: Arc<dyn Disk>,
    sizes: Sizes,
    now: Timestamp,
    anchor: Option<Anchor>,
) -> Result<Recovered, OpenError> {
    let files = Files::list(&*disk)?;
    let catalog_path = disk.path().join(crate::catalog::FILE);
    let invalid_catalog = |problem| OpenError::Catalog { path: catalog_path.clone(), problem };
    let catalog = match Catalog::load(&*disk)? {
        Some(catalog) => catalog,
        None if files.data.is_empty() => {
            let catalog = Catalog::new(crate::engine::random_u64());
            catalog.save(&*disk).map_err(|error| OpenError::io("write", &catalog_path, error))?;
            catalog
        }
        None => return Err(invalid_catalog("it is missing, although there are segments".into())),
    };
    let earlier = catalog.anchor.clone();
    let step = anchor.as_ref().zip(earlier.as_ref()).map_or(0, |(now, earlier)| now.step_since(earlier));
    if step != 0 {
        tracing::warn!(
            by_ms = step,
            "the clock was set since the queue was last open; due times are shifted with it"
        );
    }
    let mut scan = Scan {
        state: State::new(disk.clone(), catalog, Reserve { held: files.reserve, missing: false }),
        present: files.data.clone(),
        moved: HashMap::new(),
        pending: Vec::new(),
        due_times: HashMap::new(),
        events: Vec::new(),
        lost: Vec::new(),
        origins: HashMap::new(),
        superseded: HashSet::new(),
        report: Recovery::default(),
        unknown_queue: None,
        now,
        step,
    };
    for id in &files.data {
        let name = data_name(*id);
        scan.segment(*id).map_err(|error| match error {
            ScanError::Io(error) => OpenError::io("read", &disk.path().join(name), error),
            ScanError::Foreign => OpenError::ForeignSegment { path: disk.path().join(name) },
            ScanError::UnknownQueue(number) => invalid_catalog(format!(
                "`{name}` has messages of queue number {number}, which it does not list"
            )),
        })?;
    }
    for id in files.journals.difference(&files.data) {
        let _ = disk.remove(&journal_name(*id));
    }
    let mut spares = Vec::new();
    let usable = sizes.first_segment..=MAX_FILE_SIZE;
    for number in files.spares {
        let name = spare_name(number);
        match disk.open(&name) {
            Ok(file) if spares.len() < 2 && file.len().is_ok_and(|size| usable.contains(&size)) => {
                spares.push((number, file));
            }
            _ => drop(disk.remove(&name)),
        }
    }
    let (mut state, report) = scan.finish();
    // Stored after the due times were shifted. A kill in between may shift a message twice, which affects no lease or attempt.
    if step != 0
        || earlier.as_ref().map(|earlier| &earlier.boot) != anchor.as_ref().map(|anchor| &anchor.boot)
    {
        state.catalog.anchor = anchor;
    }
    state.next_dead_letter = state.next_dead_letter.max(state.catalog.unused_dead_letter);
    state.catalog.unused_dead_letter = state.next_dead_letter + DEAD_LETTER_NUMBERS;
    if let Err(error) = state.catalog.save(&*disk) {
        // On a full disk, messages can still be received and settled.
        tracing::warn!(%error, "the catalog cannot be written; a changed clock may go undetected at the next start");
    }
    let engine = Engine::new(disk.clone(), sizes, state, spares);
    // Makes new journals, and renames and removals of an earlier run, durable.
    disk.sync_dir().map_err(|error| OpenError::io("sync", disk.path(), error))?;
    engine.recycle();
    for damage in &report.damage {
        tracing::error!(%damage, "a part of the queue's log is unreadable and was quarantined");
    }
    for damage in &report.unfinished {
        tracing::warn!(%damage, "the last write before the crash is incomplete");
    }
    if report.damaged_journal_slots > 0 {
        let slots = report.damaged_journal_slots;
        tracing::error!(
            slots,
            "some journal entries are unreadable; messages they settled may be redelivered"
        );
    }
    let dead_letter_requests = engine.take_dead_letter_requests();
    if !dead_letter_requests.is_empty() {
        engine.commit(dead_letter_requests, now);
    }
    Ok(Recovered { engine, report })
}

/// Files of the directory by type.
struct Files {
    data: BTreeSet<u32>,
    journals: BTreeSet<u32>,
    spares: Vec<u32>,
    reserve: bool,
}

impl Files {
    fn list(disk: &dyn Disk) -> Result<Self, OpenError> {
        let names = disk.list().map_err(|error| OpenError::io("list", disk.path(), error))?;
        let mut files =
            Files { data: BTreeSet::new(), journals: BTreeSet::new(), spares: Vec::new(), reserve: false };
        for name in names {
            match FileName::of(&name) {
                FileName::Data(id) => drop(files.data.insert(id)),
                FileName::Journal(id) => drop(files.journals.insert(id)),
                FileName::SpareFile(number) => files.spares.push(number),
                FileName::Other => files.reserve |= name == crate::reserve::FILE,
                FileName::Foreign => return Err(OpenError::ForeignFile { path: disk.path().join(name) }),
            }
        }
        Ok(files)
    }
}

enum ScanError {
    Io(io::Error),
    Foreign,
    UnknownQueue(u16),
}

impl From<io::Error> for ScanError {
    fn from(error: io::Error) -> Self {
        ScanError::Io(error)
    }
}

/// Scan over all segments, oldest first.
struct Scan {
    state: State,
    /// Segments present at the start.
    present: BTreeSet<u32>,
    /// Superseded records and their copies.
    moved: HashMap<Position, Position>,
    /// Pending messages with their sequence.
    pending: Vec<(u64, Slot)>,
    due_times: HashMap<Slot, Timestamp>,
    /// Journal events to write before the engine starts.
    events: Vec<(Position, Event)>,
    /// Messages that reached the maximum number of solo crashes.
    lost: Vec<Slot>,
    /// Original of each copy.
    origins: HashMap<Position, Position>,
    /// Messages superseded by a copy that was scanned later.
    superseded: HashSet<Slot>,
    report: Recovery,
    /// Queue number that is missing in the catalog.
    unknown_queue: Option<u16>,
    now: Timestamp,
    /// Milliseconds by which the clock was set since the due times were written.
    step: i64,
}

impl Scan {
    fn segment(&mut self, id: u32) -> Result<(), ScanError> {
        let disk = self.state.disk.clone();
        let directory = self.state.catalog.directory;
        let salt = segment::salt_of(directory, id);
        let file = disk.open(&data_name(id))?;
        let journal_file = match disk.open(&journal_name(id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => disk.create(&journal_name(id))?,
            opened => opened?,
        };
        let contents = JournalContents::read(&*journal_file, salt)?;
        self.report.damaged_journal_slots += contents.damaged_slots;
        for (offset, journaled) in &contents.by_offset {
            if let Some(to) = journaled.moved {
                self.moved.insert(Position { segment: id, offset: *offset }, to);
            }
        }
        let journal = Journal::open(journal_file, salt, contents.end);
        let mut segment = Segment::new(file.clone(), journal, salt, segment::FIRST_RECORD);
        segment.sealed = true;
        self.state.segments.insert(id, segment);

        let bytes = read_whole(&*file)?;
        let mut records = 0u64;
        let mut damage = Vec::new();
        let end = segment::scan(&bytes, salt, contents.sealed, |found| match found {
            ScanItem::Record { offset, header, payload } => {
                records += 1;
                let journaled = contents.by_offset.get(&offset).copied().unwrap_or_default();
                self.record(Position { segment: id, offset }, header, payload, journaled);
            }
            ScanItem::Damage { offset, bytes } => damage.push((offset, bytes, true)),
            ScanItem::Unfinished { offset, bytes } => damage.push((offset, bytes, false)),
        });
        if records == 0 && !segment::has_preamble(&*file, directory, id)? && bytes.starts_with(segment::MAGIC)
        {
            return Err(ScanError::Foreign);
        }
        let mut unfinished = false;
        if let Some(number) = self.unknown_queue {
            return Err(ScanError::UnknownQueue(number));
        }
        for (offset, bytes, certain) in damage {
            unfinished |= !certain;
            self.damage(Position { segment: id, offset }, bytes, certain, &contents);
        }
        if records == 0 && !segment::has_preamble(&*file, directory, id)? {
            let position = Position { segment: id, offset: 0 };
            self.damage(position, &bytes[..bytes.len().min(1 << 20)], true, &contents);
        }
        self.report.torn_bytes += end.torn;
        if let Some(segment) = self.state.segments.get_mut(&id) {
            segment.end = end.end;
        }
        // A torn segment stays unsealed, or the next recovery would report the torn bytes as damage.
        if contents.sealed.is_none() && end.torn == 0 && !unfinished {
            // The last writes of a killed process may be in the page cache only.
            file.sync()?;
            self.events.push((Position { segment: id, offset: end.end }, Event::Sealed));
        }
        Ok(())
    }

    fn damage(&mut self, position: Position, bytes: &[u8], certain: bool, contents: &JournalContents) {
        // Reported once, and noted in the journal.
        let length = bytes.len() as u64;
        let journaled = contents.by_offset.get(&position.offset);
        if journaled.is_some_and(|journaled| journaled.quarantined == Some(length)) {
            return;
        }
        let damage = Damage::save(&*self.state.disk, position, bytes);
        if certain {
            self.report.damage.push(damage);
        } else {
            self.report.unfinished.push(damage);
        }
        self.events.push((position, Event::Quarantined { bytes: length }));
    }

    fn record(
        &mut self,
        position: Position,
        header: RecordHeader,
        payload: &[u8],
        journaled: JournaledState,
    ) {
        if header.kind == Kind::Message && journaled.is_obsolete() {
            return;
        }
        if usize::from(header.queue) >= self.state.queues.len() {
            self.unknown_queue = Some(header.queue);
            return;
        }
        let Some(summary) = PayloadSummary::read(payload) else {
            // Intact but unknown, probably written by a later version.
            self.report.damage.push(Damage::save(&*self.state.disk, position, payload));
            self.events.push((position, Event::Done));
            return;
        };
        if let Some((origin, ..)) = summary.history {
            self.origins.insert(position, origin);
        }
        if let Some((origin, ..)) = summary.history
            && self.present.contains(&origin.segment)
            && self.moved.get(&origin) != Some(&position)
        {
            if journaled.was_used() {
                // It was in use, so only the `Moved` event was lost in a power cut.
                self.supersede(origin, position);
            } else {
                // The original was not marked, or another copy superseded it: this copy never became valid.
                if !journaled.done {
                    self.events.push((position, Event::Done));
                }
                return;
            }
        }
        if journaled.is_obsolete() {
            return;
        }
        let published_second = u32::try_from(summary.published_at.as_millis() / 1000).unwrap_or(u32::MAX);
        let slot = self.state.slab.insert(header.queue, position, header.payload, published_second);
        self.state.add_live_record(slot, position, header.payload);
        self.report.messages += 1;
        let (sequence, attempts) = match summary.history {
            None => (position.sequence(), 0),
            Some((_, OWN_POSITION, attempts)) => (position.sequence(), attempts),
            Some((_, sequence, attempts)) => (sequence, attempts),
        };
        self.state.slab.get_mut(slot).attempts = u16::try_from(attempts).unwrap_or(u16::MAX);
        if let (Kind::Dead, Some(number)) = (header.kind, summary.dead_letter) {
            self.state.next_dead_letter = self.state.next_dead_letter.max(number + 1);
            self.state.add_dead_letter(slot, header.queue, number);
            return;
        }
        let losses = self.record_losses(slot, position, journaled, summary.losses);
        let spec = &self.state.queues[header.queue as usize].spec;
        if losses.solo > 0 && u32::from(losses.solo) >= spec.max_solo_crashes {
            self.lost.push(slot);
            return;
        }
        let mut due = if journaled.in_flight {
            Timestamp::default()
        } else {
            journaled.deferred.unwrap_or(summary.due)
        };
        if self.step != 0 && due > Timestamp::default() {
            due = Timestamp::from_millis(due.as_millis().saturating_add_signed(self.step));
            self.events.push((position, Event::Deferred { until: due }));
        }
        if due > self.now {
            self.due_times.insert(slot, due);
        }
        self.state.queues[header.queue as usize].assign_group(&mut self.state.slab, slot, summary.group);
        self.pending.push((sequence, slot));
    }

    /// Removes a superseded record, and those that it had superseded itself.
    fn supersede(&mut self, mut origin: Position, mut copy: Position) {
        loop {
            self.events.push((origin, Event::Moved { to: copy }));
            if let Some(segment) = self.state.segments.get(&origin.segment) {
                let slab = &self.state.slab;
                let found = segment.slots.binary_search_by_key(&origin, |slot| slab.get(*slot).position);
                self.superseded.extend(found.ok().map(|at| segment.slots[at]));
            }
            match self.origins.get(&origin) {
                Some(before) => (origin, copy) = (*before, origin),
                None => return,
            }
        }
    }

    /// Records the lost workers of a message, including those since its record was written.
    fn record_losses(
        &mut self,
        slot: Slot,
        position: Position,
        mut journaled: JournaledState,
        before: Losses,
    ) -> Losses {
        if journaled.in_flight {
            self.report.lost_deliveries += 1;
            journaled.solo_crashes += u16::from(journaled.solo);
            let at = self.now;
            let event = if journaled.solo { Event::SoloCrash { at } } else { Event::WorkerLost { at } };
            self.events.push((position, event));
            journaled.record_loss(at);
        }
        let losses = Losses {
            all: before.all.saturating_add(journaled.lost),
            solo: before.solo.saturating_add(journaled.solo_crashes),
        };
        if losses != Losses::default() {
            let since_record = (journaled.lost > 0).then_some((journaled.first_lost, journaled.last_lost));
            self.state.suspects.insert(slot, LossHistory { losses, since_record });
        }
        losses
    }

    fn finish(mut self) -> (State, Recovery) {
        // Copies come after later messages in the log, so restore the order of publishing.
        self.pending.sort();
        for (_, slot) in std::mem::take(&mut self.pending) {
            if self.superseded.contains(&slot) {
                continue;
            }
            let due = self.due_times.get(&slot).copied().unwrap_or_default();
            self.state.push_recovered(slot, due, self.now);
        }
        let events = std::mem::take(&mut self.events);
        self.state.record_events(&events);
        self.lost.retain(|slot| !self.superseded.contains(slot));
        for slot in self.superseded {
            self.report.messages -= 1;
            self.state.remove_dead_letter(slot);
            self.state.remove_message(slot);
        }
        for slot in std::mem::take(&mut self.lost) {
            self.state.dead_letter_crashed(slot, self.now);
        }
        for id in self.present {
            self.state.discard_if_garbage(id);
        }
        (self.state, self.report)
    }
}
