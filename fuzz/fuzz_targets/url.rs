//! Any string has a normal form, which stays as it is, or an error. Joining agrees with it.
#![no_main]

use crawlway_content::url::normalise;
use crawlway_content::{NormalUrl, UrlOptions};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &str| {
    let Ok(base) = "https://example.com/dir/page?x=1".parse::<NormalUrl>() else { return };
    let lowered = UrlOptions { lowercase_paths: true, ..UrlOptions::without_tracking() };
    for options in [UrlOptions::default(), lowered] {
        for found in [normalise(input, &options), base.join(input, &options)].into_iter().flatten() {
            assert_eq!(normalise(found.as_str(), &options).as_ref(), Ok(&found));
            assert_eq!(base.join(found.as_str(), &options).as_ref(), Ok(&found));
            assert_eq!(format!("{}{}", found.origin(), found.path_and_query()), found.as_str());
        }
    }
});
