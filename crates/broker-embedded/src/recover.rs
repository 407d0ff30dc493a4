//! Recovery: from what is on disk to an engine that can go on, whatever a crash or a bad disk left there.

use crate::{
    catalog::Catalog,
    disk::{Disk, DiskFile},
    engine::{Engine, LARGEST_FILE, Sizes, State, Suspicion},
    error::OpenError,
    index::Slot,
    journal::{Event, Histories, History, Journal},
    record::{Head, Kind, Losses, OWN_PLACE, Outline, Place},
    reserve::Reserve,
    segment::{self, FileName, Found, Segment, data_name, journal_name, spare_name},
};
use crawlway_broker::Timestamp;
use crawlway_clock::Anchor;
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    fmt, io,
    sync::Arc,
};

/// Numbers of dead letters are reserved this many at a time.
pub(crate) const DEATH_NUMBERS: u64 = 1000;

/// Where unreadable bytes are kept, for who wants to look.
pub(crate) const SET_ASIDE: &str = "set-aside";

/// What was found when the directory was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Messages that wait or are dead.
    pub messages: u64,
    /// Deliveries that were in flight when the last process ended; their messages are suspect.
    pub lost_deliveries: u64,
    /// Bytes of a last commit that a power cut interrupted; nobody was told that they are safe.
    pub torn_bytes: u64,
    /// Journal entries that could not be read; the messages they settled may come again.
    pub damaged_journal_slots: u64,
    /// Stretches of the log that could not be read and were set aside.
    pub damage: Vec<Damage>,
    /// The same at the very end of the log, where a crash in the middle of a write leaves them: most likely
    /// nobody was told that these are safe.
    pub unfinished: Vec<Damage>,
}

/// A stretch of the log that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The segment's file.
    pub file: String,
    /// Where it starts.
    pub offset: u64,
    /// How many bytes it has.
    pub bytes: u64,
    /// The file, below the queue directory, where the bytes were saved, if they could be.
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
    /// Saves the bytes where the queue does not look, and describes them.
    pub(crate) fn save(disk: &dyn Disk, place: Place, bytes: &[u8]) -> Self {
        let name = format!("{SET_ASIDE}/{:010}-{}.bin", place.segment, place.offset);
        let saved = disk.create(&name).and_then(|file| file.write_at(bytes, 0).and_then(|()| file.sync()));
        Damage {
            file: data_name(place.segment),
            offset: u64::from(place.offset),
            bytes: bytes.len() as u64,
            saved_as: saved.is_ok().then_some(name),
        }
    }
}

/// An engine that can be used at once, and what was found.
pub(crate) struct Recovered {
    pub(crate) engine: Engine,
    pub(crate) report: Recovery,
}

/// Refuses a directory that has files which are not the queue's.
pub(crate) fn refuse_foreign_files(disk: &dyn Disk) -> Result<(), OpenError> {
    Files::list(disk).map(drop)
}

/// Opens a directory that is locked already.
pub(crate) fn recover(
    disk: Arc<dyn Disk>,
    sizes: Sizes,
    now: Timestamp,
    anchor: Option<Anchor>,
) -> Result<Recovered, OpenError> {
    let files = Files::list(&*disk)?;
    let catalog = match Catalog::load(&*disk)? {
        Some(catalog) => catalog,
        None if files.data.is_empty() => {
            let catalog = Catalog::new(crate::engine::random_number());
            let path = disk.path().join(crate::catalog::FILE);
            catalog.save(&*disk).map_err(|error| OpenError::io("write", &path, error))?;
            catalog
        }
        None => {
            let path = disk.path().join(crate::catalog::FILE);
            return Err(OpenError::Catalog {
                path,
                problem: "it is missing, although there are segments".into(),
            });
        }
    };
    let earlier = catalog.anchor.clone();
    let step = anchor.as_ref().zip(earlier.as_ref()).map_or(0, |(now, earlier)| now.step_since(earlier));
    if step != 0 {
        tracing::warn!(
            by_ms = step,
            "the clock was set since the queue was last open; waiting messages are moved with it"
        );
    }
    let mut scan = Scan {
        state: State::new(disk.clone(), catalog, Reserve::new(files.reserve)),
        present: files.data.clone(),
        moved: HashMap::new(),
        waiting: Vec::new(),
        dues: HashMap::new(),
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
        scan.segment(*id).map_err(|error| match error {
            ScanError::Io(error) => OpenError::io("read", &disk.path().join(data_name(*id)), error),
            ScanError::Foreign => OpenError::ForeignSegment { path: disk.path().join(data_name(*id)) },
            ScanError::UnknownQueue(number) => OpenError::Catalog {
                path: disk.path().join(crate::catalog::FILE),
                problem: format!(
                    "`{}` has messages of a queue, number {number}, that it does not list",
                    data_name(*id)
                ),
            },
        })?;
    }
    for id in files.journals.difference(&files.data) {
        let _ = disk.remove(&journal_name(*id));
    }
    let mut spares = Vec::new();
    let usable = sizes.first_segment..=LARGEST_FILE;
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
    // After the times were moved: killed in between, a message may be moved twice, which no lease or attempt depends on.
    if step != 0
        || earlier.as_ref().map(|earlier| &earlier.boot) != anchor.as_ref().map(|anchor| &anchor.boot)
    {
        state.catalog.anchor = anchor;
    }
    state.next_death = state.next_death.max(state.catalog.unused_death);
    state.catalog.unused_death = state.next_death + DEATH_NUMBERS;
    if let Err(error) = state.catalog.save(&*disk) {
        // A disk that is full can be read, and what waits on it settled.
        tracing::warn!(%error, "the catalog cannot be written; a clock that is set may not be noticed at the next start");
    }
    let engine = Engine::new(disk.clone(), sizes, state, spares);
    // Journals that were missing, and what an earlier start has renamed or removed.
    disk.sync_dir().map_err(|error| OpenError::io("sync", disk.path(), error))?;
    engine.recycle();
    for damage in &report.damage {
        tracing::error!(%damage, "a part of the queue's log is unreadable and was set aside");
    }
    for damage in &report.unfinished {
        tracing::warn!(%damage, "the last write before the crash was not finished");
    }
    if report.damaged_journal_slots > 0 {
        let slots = report.damaged_journal_slots;
        tracing::error!(slots, "some journal entries are unreadable; messages they settled may come again");
    }
    let burials = engine.take_burials();
    if !burials.is_empty() {
        engine.commit(burials, now);
    }
    Ok(Recovered { engine, report })
}

/// What is in the directory.
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
                FileName::Spare(number) => files.spares.push(number),
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

/// Goes through the segments from the oldest to the newest.
struct Scan {
    state: State,
    /// The segments there were when we started.
    present: BTreeSet<u32>,
    /// Which records were replaced by a copy, and by which.
    moved: HashMap<Place, Place>,
    /// What waits, with the order in which it was first published.
    waiting: Vec<(u64, Slot)>,
    dues: HashMap<Slot, Timestamp>,
    /// What the journals must say before the engine starts.
    events: Vec<(Place, Event)>,
    /// What has taken too many processes with it.
    lost: Vec<Slot>,
    /// What each copy is a copy of.
    origins: HashMap<Place, Place>,
    /// What a copy has replaced, as was found later.
    superseded: HashSet<Slot>,
    report: Recovery,
    /// A queue that the catalog does not know.
    unknown_queue: Option<u16>,
    now: Timestamp,
    /// By how many milliseconds the clock was set since the times in the log were written.
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
        let histories = Histories::read(&*journal_file, salt)?;
        self.report.damaged_journal_slots += histories.damaged_slots;
        for (offset, history) in &histories.by_offset {
            if let Some(to) = history.moved {
                self.moved.insert(Place { segment: id, offset: *offset }, to);
            }
        }
        let journal = Journal::open(journal_file, salt, histories.end);
        let mut segment = Segment::new(file.clone(), journal, salt, segment::FIRST_RECORD);
        segment.sealed = true;
        self.state.segments.insert(id, segment);

        let bytes = read_whole(&*file)?;
        let mut records = 0u64;
        let mut damage = Vec::new();
        let end = segment::scan(&bytes, salt, histories.sealed, |found| match found {
            Found::Record { offset, head, payload } => {
                records += 1;
                let history = histories.by_offset.get(&offset).copied().unwrap_or_default();
                self.record(Place { segment: id, offset }, head, payload, history);
            }
            Found::Damage { offset, bytes } => damage.push((Place { segment: id, offset }, bytes, true)),
            Found::Unfinished { offset, bytes } => damage.push((Place { segment: id, offset }, bytes, false)),
        });
        if records == 0 && !segment::has_preamble(&*file, directory, id)? && bytes.starts_with(segment::MAGIC)
        {
            return Err(ScanError::Foreign);
        }
        let mut unfinished = false;
        if let Some(number) = self.unknown_queue {
            return Err(ScanError::UnknownQueue(number));
        }
        for (place, bytes, certain) in damage {
            unfinished |= !certain;
            self.damage(place, bytes, certain, &histories);
        }
        if records == 0 && !segment::has_preamble(&*file, directory, id)? {
            let place = Place { segment: id, offset: 0 };
            self.damage(place, &bytes[..bytes.len().min(1 << 20)], true, &histories);
        }
        self.report.torn_bytes += end.torn;
        if let Some(segment) = self.state.segments.get_mut(&id) {
            segment.end = end.end;
        }
        // What is torn today must not be taken for damage tomorrow: such a segment stays unfinished.
        if histories.sealed.is_none() && end.torn == 0 && !unfinished {
            // What a killed process wrote last may be known to the operating system only.
            file.sync()?;
            self.events.push((Place { segment: id, offset: end.end }, Event::Sealed));
        }
        Ok(())
    }

    fn damage(&mut self, place: Place, bytes: &[u8], certain: bool, histories: &Histories) {
        // Told once; the journal remembers.
        let length = bytes.len() as u64;
        if histories.by_offset.get(&place.offset).is_some_and(|history| history.set_aside == Some(length)) {
            return;
        }
        let damage = Damage::save(&*self.state.disk, place, bytes);
        if certain {
            self.report.damage.push(damage);
        } else {
            self.report.unfinished.push(damage);
        }
        self.events.push((place, Event::SetAside { bytes: length }));
    }

    fn record(&mut self, place: Place, head: Head, payload: &[u8], history: History) {
        if head.kind == Kind::Message && history.is_over() {
            return;
        }
        if usize::from(head.queue) >= self.state.queues.len() {
            self.unknown_queue = Some(head.queue);
            return;
        }
        let Some(outline) = Outline::read(payload) else {
            // Whole, and yet not ours to read: a later version's, perhaps.
            self.report.damage.push(Damage::save(&*self.state.disk, place, payload));
            self.events.push((place, Event::Done));
            return;
        };
        if let Some((origin, ..)) = outline.carried {
            self.origins.insert(place, origin);
        }
        if let Some((origin, ..)) = outline.carried
            && self.present.contains(&origin.segment)
            && self.moved.get(&origin) != Some(&place)
        {
            if history.was_used() {
                // It had taken over, and only the note of it was lost with the power.
                self.supersede(origin, place);
            } else {
                // The original was not marked, or another copy took over: this one never counted.
                if !history.done {
                    self.events.push((place, Event::Done));
                }
                return;
            }
        }
        if history.is_over() {
            return;
        }
        let born = u32::try_from(outline.published_at.as_millis() / 1000).unwrap_or(u32::MAX);
        let slot = self.state.slab.insert(head.queue, place, head.payload, born);
        self.state.note_record(slot, place, head.payload);
        self.report.messages += 1;
        let (sequence, attempts) = match outline.carried {
            None => (place.sequence(), 0),
            Some((_, OWN_PLACE, attempts)) => (place.sequence(), attempts),
            Some((_, sequence, attempts)) => (sequence, attempts),
        };
        self.state.slab.get_mut(slot).attempts = u16::try_from(attempts).unwrap_or(u16::MAX);
        if let (Kind::Dead, Some(number)) = (head.kind, outline.death) {
            self.state.next_death = self.state.next_death.max(number + 1);
            self.state.bury(slot, head.queue, number);
            return;
        }
        let losses = self.note_losses(slot, place, history, outline.losses);
        let spec = &self.state.queues[head.queue as usize].spec;
        if losses.solo > 0 && u32::from(losses.solo) >= spec.max_solo_crashes {
            self.lost.push(slot);
            return;
        }
        let mut due =
            if history.in_flight { Timestamp::default() } else { history.deferred.unwrap_or(outline.due) };
        if self.step != 0 && due > Timestamp::default() {
            due = Timestamp::from_millis(due.as_millis().saturating_add_signed(self.step));
            self.events.push((place, Event::Deferred { until: due }));
        }
        if due > self.now {
            self.dues.insert(slot, due);
        }
        self.state.queues[head.queue as usize].enlist(&mut self.state.slab, slot, outline.group);
        self.waiting.push((sequence, slot));
    }

    /// Takes a record out again that a copy has replaced, and with it those that it had replaced itself.
    fn supersede(&mut self, mut origin: Place, mut copy: Place) {
        loop {
            self.events.push((origin, Event::Moved { to: copy }));
            if let Some(segment) = self.state.segments.get(&origin.segment) {
                let slab = &self.state.slab;
                let found = segment.slots.binary_search_by_key(&origin, |slot| slab.get(*slot).place);
                self.superseded.extend(found.ok().map(|at| segment.slots[at]));
            }
            match self.origins.get(&origin) {
                Some(before) => (origin, copy) = (*before, origin),
                None => return,
            }
        }
    }

    /// Notes how many receivers of a message were lost, besides those that its record tells of.
    fn note_losses(&mut self, slot: Slot, place: Place, mut history: History, before: Losses) -> Losses {
        if history.in_flight {
            self.report.lost_deliveries += 1;
            history.solo_crashes += u16::from(history.alone);
            let at = self.now;
            let event = if history.alone { Event::SoloCrash { at } } else { Event::Lost { at } };
            self.events.push((place, event));
            history.lose(at);
        }
        let losses = Losses {
            all: before.all.saturating_add(history.lost),
            solo: before.solo.saturating_add(history.solo_crashes),
        };
        if losses != Losses::default() {
            let since_record = (history.lost > 0).then_some((history.first_lost, history.last_lost));
            self.state.suspects.insert(slot, Suspicion { losses, since_record });
        }
        losses
    }

    fn finish(mut self) -> (State, Recovery) {
        // Copies lie behind what was published before them; each queue starts in the order of publishing.
        self.waiting.sort();
        for (_, slot) in std::mem::take(&mut self.waiting) {
            if self.superseded.contains(&slot) {
                continue;
            }
            let due = self.dues.get(&slot).copied().unwrap_or_default();
            self.state.push_recovered(slot, due, self.now);
        }
        let events = std::mem::take(&mut self.events);
        self.state.record_events(&events);
        self.lost.retain(|slot| !self.superseded.contains(slot));
        for slot in self.superseded {
            self.report.messages -= 1;
            self.state.exhume(slot);
            self.state.erase(slot);
        }
        for slot in std::mem::take(&mut self.lost) {
            self.state.bury_lost(slot, self.now);
        }
        for id in self.present {
            self.state.discard_if_garbage(id);
        }
        (self.state, self.report)
    }
}

fn read_whole(file: &dyn DiskFile) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or(usize::MAX)];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}
