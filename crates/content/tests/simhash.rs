//! The SimHash is stored for ever: its values are pinned, and so is how it behaves.

// A failed unwrap is a failed test.
#![allow(clippy::unwrap_used)]

use crawlway_content::simhash::{distance, from_signed, near, simhash, to_signed};

#[test]
fn values_never_change() {
    for (text, value) in PINNED {
        assert_eq!(simhash(text), *value, "{text:?} gives {:#018x}", simhash(text));
    }
}

/// Stored values depend on these. If one has to be changed here, the change is wrong.
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
    assert!(near(0b111, 0));
    assert!(!near(0b1111, 0));
    assert_eq!(distance(u64::MAX, 0), 64);
}

#[test]
fn case_punctuation_and_white_space_do_not_count() {
    let a = simhash("Hello, World! This is (quite) simple.");
    assert_eq!(a, simhash("hello world   this\nis quite simple"));
    assert_eq!(a, simhash("HELLO — WORLD… THIS IS “QUITE” SIMPLE"));
}

#[test]
fn order_counts() {
    assert_ne!(simhash("one two three four five six"), simhash("six five four three two one"));
}

/// A text of `count` words that differs with `seed`.
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
fn a_small_edit_moves_it_little_and_another_text_far() {
    let mut near_edits = 0;
    for seed in 0..100 {
        let original = text(seed, 600);
        let before = simhash(&original.join(" "));
        let mut edited = original.clone();
        edited[300] = "changed".to_owned();
        near_edits += u32::from(near(before, simhash(&edited.join(" "))));
        let other = simhash(&text(seed + 1000, 600).join(" "));
        assert!(distance(before, other) > 10, "seed {seed}: {}", distance(before, other));
    }
    assert!(near_edits >= 80, "only {near_edits} of 100 edits of one word in 600 stayed near");
}

/// A text of `count` words of which few are frequent and many rare, as in a language.
fn language(seed: u64, count: usize) -> Vec<String> {
    let number = |word: &String| word[1..].parse::<i32>().unwrap();
    text(seed, count).iter().map(|word| format!("w{:.0}", 1.01_f64.powi(number(word)))).collect()
}

#[test]
fn pages_of_one_template_are_apart_if_a_third_of_them_differs() {
    // Whether the data can be anything or, as in a timetable, one of a few.
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
                    assert!(!near(*a, *b), "two pages of template {template} are near, of {values} values");
                }
            }
        }
    }
}

#[test]
fn the_same_words_in_another_order_are_another_text() {
    for seed in 0..50 {
        let words = text(seed, 400);
        let mut others = words.clone();
        others.sort();
        assert!(distance(simhash(&words.join(" ")), simhash(&others.join(" "))) > 10, "seed {seed}");
    }
}

/// The definition, word by word, for texts of ASCII letters and spaces.
fn defined(text: &str) -> u64 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    fn mix(z: u64) -> u64 {
        let z = z.wrapping_add(K);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn hash(token: &str) -> u64 {
        let (words, rest) = token.as_bytes().as_chunks::<8>();
        let h = words.iter().fold(0, |h, word| mix(h ^ u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        mix(h ^ u64::from_le_bytes(last) ^ (token.len() as u64).wrapping_mul(K))
    }
    let tokens: Vec<u64> = text.split_whitespace().map(|token| hash(&token.to_lowercase())).collect();
    let votes: Vec<u64> = match tokens.as_slice() {
        [token] => vec![mix(*token)],
        tokens => tokens.windows(2).map(|pair| mix(pair[0] ^ pair[1].rotate_left(21))).collect(),
    };
    let is_set = |bit: &u32| 2 * votes.iter().filter(|vote| *vote >> bit & 1 == 1).count() > votes.len();
    (0..64).filter(is_set).fold(0, |value, bit| value | 1 << bit)
}

#[test]
fn the_value_is_what_the_definition_says() {
    for seed in 0..50 {
        let words = language(seed, 3 * usize::try_from(seed * seed / 8).unwrap());
        let text = words.join(" ").replace('0', "Zero").replace('9', "ninetynine");
        assert_eq!(simhash(&text), defined(&text), "{text}");
    }
}

#[test]
fn scripts_without_spaces_move_as_little() {
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
