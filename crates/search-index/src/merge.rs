//! Which segments are merged: few enough files to search quickly, and no merge so large that it takes for ever.

use tantivy::{
    index::SegmentMeta,
    indexer::{LogMergePolicy, MergeCandidate, MergePolicy},
};

/// Segments with more pages are left as they are, so that no page is merged more often in a large index than in a small one.
const LARGE: usize = 50_000;

/// With more pages than this, only so many segments are merged at once: what a merge needs grows with its pages.
const MANY_PAGES: u64 = 100_000;
const FEW_SEGMENTS: usize = 10;

/// Share of replaced and removed pages from which a segment is written anew.
const TOO_MANY_DELETED: f64 = 0.3;

/// When segments are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Pages are coming in, which merging would slow down: only so that there are not too many segments.
    Busy,
    /// Nothing else is to be done.
    Idle,
}

#[derive(Debug)]
pub(crate) struct Policy {
    by_size: LogMergePolicy,
}

impl Policy {
    pub(crate) fn new(effort: Effort) -> Self {
        let mut by_size = LogMergePolicy::default();
        by_size.set_max_docs_before_merge(LARGE);
        by_size.set_min_num_segments(match effort {
            Effort::Busy => 30,
            Effort::Idle => 10,
        });
        // Segments of one commit are merged once, then wait until there are enough of that size: with the library's
        // 10,000 a page of a small commit is merged again and again on its way there.
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
            let wasteful =
                f64::from(segment.num_deleted_docs()) > f64::from(segment.max_doc()) * TOO_MANY_DELETED;
            let taken = candidates.iter().any(|candidate| candidate.0.contains(&segment.id()));
            if wasteful && !taken {
                candidates.push(MergeCandidate(vec![segment.id()]));
            }
        }
        candidates
    }
}

/// What is to be merged, in parts that are not too large.
fn in_parts(MergeCandidate(all): MergeCandidate, segments: &[SegmentMeta]) -> Vec<MergeCandidate> {
    let pages = segments.iter().filter(|segment| all.contains(&segment.id()));
    if pages.map(|segment| u64::from(segment.num_docs())).sum::<u64>() <= MANY_PAGES {
        return vec![MergeCandidate(all)];
    }
    let parts = all.chunks(FEW_SEGMENTS).filter(|part| part.len() > 1);
    parts.map(|part| MergeCandidate(part.to_vec())).collect()
}
