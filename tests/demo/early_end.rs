//! Demos that a signal ends early.

use crate::lab::Lab;
use rustix::process::Signal;

#[test]
fn a_signal_during_the_crawl_leaves_no_files_behind() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let lab = Lab::new();
        let mut demo = lab.start(lab.program(&["demo", "--exit"]));
        let line = demo.until("(removed at the end)");
        assert!(line.contains(lab.temporary_files()[0].to_str().unwrap()), "{line}");
        demo.signal(signal);
        let (status, rest) = demo.wait();
        assert_eq!(status.code(), Some(3), "{signal:?}: {rest}");
        assert!(rest.contains("stopped before the crawl was finished"), "{rest}");
        assert_eq!((lab.temporary_files(), lab.files()), (Vec::new(), Vec::new()), "{signal:?}");
    }
}

#[test]
fn the_directory_that_a_kill_leaves_behind_was_printed() {
    let lab = Lab::new();
    let mut demo = lab.start(lab.program(&["demo"]));
    let line = demo.until("(removed at the end)");
    demo.signal(Signal::KILL);
    assert_eq!(demo.wait().0.code(), None);
    let left = lab.temporary_files();
    assert_eq!(left.len(), 1);
    assert!(line.contains(left[0].to_str().unwrap()), "{line}");
}
