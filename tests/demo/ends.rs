//! Demos that are ended early.

use crate::lab::Lab;
use rustix::process::Signal;

#[test]
fn who_changes_their_mind_leaves_nothing_behind() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let lab = Lab::new();
        let mut demo = lab.start(lab.program(&["demo", "--exit"]));
        let line = demo.until("(removed at the end)");
        assert!(line.contains(lab.left_behind()[0].to_str().unwrap()), "{line}");
        demo.signal(signal);
        let (status, rest) = demo.ended();
        assert_eq!(status.code(), Some(3), "{signal:?}: {rest}");
        assert!(rest.contains("stopped before the crawl was over"), "{rest}");
        assert_eq!((lab.left_behind(), lab.written()), (Vec::new(), Vec::new()), "{signal:?}");
    }
}

#[test]
fn what_a_kill_leaves_behind_was_named() {
    let lab = Lab::new();
    let mut demo = lab.start(lab.program(&["demo"]));
    let line = demo.until("(removed at the end)");
    demo.signal(Signal::KILL);
    assert_eq!(demo.ended().0.code(), None);
    let left = lab.left_behind();
    assert_eq!(left.len(), 1);
    assert!(line.contains(left[0].to_str().unwrap()), "{line}");
}
