//! Records are read back as they were written, and nothing else is taken for one.

use super::*;
use proptest::prelude::*;

fn failure() -> impl Strategy<Value = Failure> {
    (".{0,40}", any::<u64>()).prop_map(|(error, at)| Failure { error, at: Timestamp::from_millis(at) })
}

fn history() -> impl Strategy<Value = MessageHistory> {
    let errors = (prop::option::of(failure()), prop::option::of(failure()));
    let losses = any::<(u16, u16)>().prop_map(|(all, solo)| Losses { all, solo });
    (any::<(u32, u32, u64, u32, u32)>(), losses, errors).prop_map(|(n, losses, (first_error, last_error))| {
        MessageHistory {
            origin: Position { segment: n.0, offset: n.1 },
            sequence: n.2,
            attempts: n.3,
            replays: n.4,
            losses,
            first_error,
            last_error,
        }
    })
}

fn cause() -> impl Strategy<Value = DeadLetterCause> {
    prop_oneof![
        Just(DeadLetterCause::AttemptsUsedUp),
        Just(DeadLetterCause::WorkerLost),
        Just(DeadLetterCause::Refused)
    ]
}

prop_compose! {
    fn stored()(
        times in any::<(u64, u64)>(),
        group in prop::option::of(".{0,140}"),
        history in prop::option::of(history()),
        dead_letter in prop::option::of((any::<(u64, u64)>(), ".{0,300}", cause())),
        id in ".{1,40}",
        key in prop::option::of(".{0,20}"),
        headers in prop::collection::btree_map(".{1,20}", ".{0,20}", 0..4),
        body in prop::collection::vec(any::<u8>(), 0..200),
    ) -> StoredMessage {
        StoredMessage {
            published_at: Timestamp::from_millis(times.0),
            due: Timestamp::from_millis(times.1),
            group,
            history,
            dead_letter: dead_letter.map(|((number, at), reason, cause)| DeadLetterInfo {
                number,
                at: Timestamp::from_millis(at),
                cause,
                reason,
            }),
            id: id.as_str().into(),
            key,
            headers,
            body: body.into(),
        }
    }
}

fn written(stored: &StoredMessage, salt: u32) -> (Vec<u8>, usize) {
    let mut record = Vec::new();
    let payload = stored.parts().append_record(&mut record);
    RecordHeader::write(&mut record, payload, Commit { number: 7, start: 32 }, 3, Kind::Message, salt);
    (record, payload)
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(stored in stored(), salt: u32) {
        let (record, payload) = written(&stored, salt);
        prop_assert_eq!(record.len(), record_size(payload));
        let header = RecordHeader::read(&record, salt).unwrap();
        let bytes = Bytes::copy_from_slice(&record[HEADER..HEADER + payload]);
        prop_assert!(header.matches(&bytes, salt));
        prop_assert_eq!((header.payload as usize, header.commit.number, header.queue), (payload, 7, 3));
        let summary = PayloadSummary::read(&bytes).unwrap();
        prop_assert_eq!(summary.group, stored.group.as_deref());
        prop_assert_eq!(StoredMessage::read(&bytes).unwrap(), stored);
    }

    #[test]
    fn a_flipped_bit_or_another_salt_is_noticed(stored in stored(), salt: u32, bit: prop::sample::Index) {
        let (mut record, payload) = written(&stored, salt);
        prop_assert!(RecordHeader::read(&record, salt ^ 1).is_none());
        let bit = bit.index((HEADER + payload) * 8);
        record[bit / 8] ^= 1 << (bit % 8);
        let intact = RecordHeader::read(&record, salt)
            .is_some_and(|header| header.matches(&record[HEADER..HEADER + payload], salt));
        prop_assert!(!intact);
    }

    #[test]
    fn no_bytes_make_reading_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), salt: u32) {
        let _ = RecordHeader::read(&bytes, salt);
        let _ = PayloadSummary::read(&bytes);
        let _ = StoredMessage::read(&bytes.into());
    }
}
