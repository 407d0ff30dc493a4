//! Merge policy: few segments for fast searches, and no very large merges.

use tantivy::{
    index::SegmentMeta,
    indexer::{LogMergePolicy, MergeCandidate, MergePolicy},
};

/// Larger segments (in pages) are not merged, so that the write amplification does not grow with the index.
const MAX_MERGED_SEGMENT: usize = 50_000;

/// Maximum number of pages of a merge of many segments, since the cost of a merge grows with its pages.
const MAX_MERGE_PAGES: u64 = 100_000;
/// Maximum number of segments of each part that a larger merge is split into.
const MAX_SEGMENTS: usize = 10;

/// Share of deleted pages from which on a segment is rewritten.
const MAX_DELETED: f64 = 0.3;

/// Load of the writer, by which the policy merges more or less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// Pages are being written: merge only to bound the number of segments.
    Busy,
    Idle,
}

#[derive(Debug)]
pub(crate) struct Policy {
    by_size: LogMergePolicy,
}

impl Policy {
    pub(crate) fn new(load: Load) -> Self {
        let mut by_size = LogMergePolicy::default();
        by_size.set_max_docs_before_merge(MAX_MERGED_SEGMENT);
        by_size.set_min_num_segments(match load {
            Load::Busy => 30,
            Load::Idle => 10,
        });
        // Below Tantivy's default of 10,000, with which pages of small commits are merged over and over.
        by_size.set_min_layer_size(1_000);
        by_size.set_level_log_size(1.5);
        Self { by_size }
    }
}

impl MergePolicy for Policy {
    fn compute_merge_candidates(&self, segments: &[SegmentMeta]) -> Vec<MergeCandidate> {
        let by_size = self.by_size.compute_merge_candidates(segments);
        let mut candidates: Vec<_> = by_size.into_iter().flat_map(|all| in_parts(all, segments)).collect();
        for segment in segments {
            let wasteful = f64::from(segment.num_deleted_docs()) > f64::from(segment.max_doc()) * MAX_DELETED;
            let taken = candidates.iter().any(|candidate| candidate.0.contains(&segment.id()));
            if wasteful && !taken {
                candidates.push(MergeCandidate(vec![segment.id()]));
            }
        }
        candidates
    }
}

/// Splits a merge that is too large.
fn in_parts(MergeCandidate(all): MergeCandidate, segments: &[SegmentMeta]) -> Vec<MergeCandidate> {
    let pages = segments.iter().filter(|segment| all.contains(&segment.id()));
    if pages.map(|segment| u64::from(segment.num_docs())).sum::<u64>() <= MAX_MERGE_PAGES {
        return vec![MergeCandidate(all)];
    }
    let parts = all.chunks(MAX_SEGMENTS).filter(|part| part.len() > 1);
    parts.map(|part| MergeCandidate(part.to_vec())).collect()
}
