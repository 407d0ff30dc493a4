//! SimHash: pinned values, since they are persisted, and distances of similar and different texts.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use crawlway_content::simhash::{distance, from_signed, is_near_duplicate, simhash, to_signed};

#[test]
fn values_never_change() {
    for (text, value) in PINNED {
        assert_eq!(simhash(text), *value, "{text:?} gives {:#018x}", simhash(text));
    }
}

/// Values of persisted fingerprints; they must not change.
const PINNED: &[(&str, u64)] = &[
    ("", 0),
    (" \n…!", 0),
    ("word", 0x7e29_7193_e054_c47b),
    ("The quick brown fox jumps over the lazy dog", 0x00e3_052d_a11a_4846),
    ("Straße ÉCOLE Москва Αθήνα", 0x7861_8ce0_fe50_dceb),
    ("東京は日本の首都です。", 0x9c70_72a4_cd7f_a41d),
    ("مرحبا بالعالم، هذا نص قصير", 0xc060_0948_c557_040c),
    ("antidisestablishmentarianism is a long word indeed", 0xa909_62fa_394a_0521),
];

#[test]
fn signed_form_keeps_all_bits() {
    for value in [0, 1, u64::MAX, 1 << 63, 0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210] {
        assert_eq!(from_signed(to_signed(value)), value);
    }
    assert_eq!(to_signed(u64::MAX), -1);
    assert_eq!(to_signed(1 << 63), i64::MIN);
}

#[test]
fn near_is_at_most_three_bits() {
    assert!(is_near_duplicate(0b111, 0));
    assert!(!is_near_duplicate(0b1111, 0));
    assert_eq!(distance(u64::MAX, 0), 64);
}

#[test]
fn case_punctuation_and_white_space_do_not_count() {
    let a = simhash("Hello, World! This is (quite) simple.");
    assert_eq!(a, simhash("hello world   this\nis quite simple"));
    assert_eq!(a, simhash("HELLO — WORLD… THIS IS “QUITE” SIMPLE"));
}

/// Random text of `count` words.
fn text(seed: u64, count: usize) -> Vec<String> {
    let mut state = seed;
    let mut words = Vec::new();
    for _ in 0..count {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        words.push(format!("w{}", (state >> 33) % 800));
    }
    words
}

#[test]
fn a_small_edit_is_near_and_another_text_far() {
    let mut near_edits = 0;
    for seed in 0..100 {
        let original = text(seed, 600);
        let before = simhash(&original.join(" "));
        let mut edited = original.clone();
        edited[300] = "changed".to_owned();
        near_edits += u32::from(is_near_duplicate(before, simhash(&edited.join(" "))));
        let other = simhash(&text(seed + 1000, 600).join(" "));
        assert!(distance(before, other) > 10, "seed {seed}: {}", distance(before, other));
    }
    assert!(near_edits >= 80, "only {near_edits} of 100 edits of one word in 600 stayed near");
}

/// Random text with a skewed word frequency, as in a language.
fn language(seed: u64, count: usize) -> Vec<String> {
    let number = |word: &String| word[1..].parse::<i32>().unwrap();
    text(seed, count).iter().map(|word| format!("w{:.0}", 1.01_f64.powi(number(word)))).collect()
}

#[test]
fn pages_of_one_template_with_a_third_of_data_are_not_near() {
    // Data of many different values, and of few as in a timetable.
    for values in [800, 12] {
        for template in 0..20 {
            let frame = language(template, 300);
            let page = |number: u64| {
                let data = text(1_000 + template * 100 + number, 150);
                let data: Vec<String> = data
                    .iter()
                    .map(|word| format!("d{}", word[1..].parse::<u64>().unwrap() % values))
                    .collect();
                let parts = frame.chunks(20).zip(data.chunks(10));
                parts.flat_map(|(frame, data)| [frame, data].concat()).collect::<Vec<_>>().join(" ")
            };
            let pages: Vec<u64> = (0..10).map(|number| simhash(&page(number))).collect();
            for (index, a) in pages.iter().enumerate() {
                for b in &pages[..index] {
                    assert!(
                        !is_near_duplicate(*a, *b),
                        "two pages of template {template} are near, of {values} values"
                    );
                }
            }
        }
    }
}

#[test]
fn word_order_counts() {
    for seed in 0..50 {
        let words = text(seed, 400);
        let mut others = words.clone();
        others.sort();
        assert!(distance(simhash(&words.join(" ")), simhash(&others.join(" "))) > 10, "seed {seed}");
    }
}

#[test]
fn scripts_without_spaces() {
    let sentences: Vec<String> = (0..80_u32)
        .map(|n| {
            let pick = |k: u32| char::from_u32(0x4e00 + (n * 37 + k * 101) % 3000).unwrap();
            format!("{}{}{}は{}{}です。", pick(1), pick(2), pick(3), pick(4), pick(5))
        })
        .collect();
    let before = simhash(&sentences.concat());
    let mut edited = sentences;
    edited[40] = "今日は晴れです。".to_owned();
    assert!(distance(before, simhash(&edited.concat())) <= 8);
    let other: String = (0..600_u32).map(|n| char::from_u32(0x5000 + n * 71 % 2900).unwrap()).collect();
    assert!(distance(before, simhash(&other)) > 10);
}
