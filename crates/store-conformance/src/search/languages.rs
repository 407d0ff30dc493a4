//! Cases: texts in many scripts are found by any part of them.

use super::fixture::*;

pub(super) async fn accents_do_not_count_either_way(t: Fixture<'_>) {
    t.write(&[
        page("http://a.org/1", "Crème brûlée", "une pâtisserie à la française"),
        page("http://a.org/2", "creme brulee", "the great street: große straße, Ørsted"),
    ])
    .await;
    for (query, expected) in [
        ("creme", "1 2"),
        ("CRÈME", "1 2"),
        ("\"crème brulee\"", "1 2"),
        ("patisserie", "1"),
        ("strasse", "2"),
        ("STRAẞE", "2"),
        ("orsted", "2"),
    ] {
        assert_eq!(t.found(query).await, expected, "{query}");
    }
}

pub(super) async fn chinese_japanese_korean_and_thai_by_any_part(t: Fixture<'_>) {
    t.write(&[
        page("http://a.org/zh", "北京大学", "我们在北京大学学习计算机科学，用iPhone15手机。"),
        page("http://a.org/ja", "東京タワー", "東京タワーは日本の首都にある電波塔です。ﾊﾟｿｺﾝも。"),
        page("http://a.org/ko", "서울", "대한민국의 수도는 서울특별시입니다"),
        page("http://a.org/th", "ไทย", "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย"),
    ])
    .await;
    for (query, expected) in [
        ("北京", "zh"),
        ("京大", "zh"),
        ("京", "ja zh"),
        ("计算机科学", "zh"),
        ("计算科学", ""),
        ("\"学习计算机\"", "zh"),
        ("学习 科学", "zh"),
        ("iPhone15手机", "zh"),
        ("iphone15", "zh"),
        ("title:大学", "zh"),
        ("タワー", "ja"),
        ("東京タワーは日本", "ja"),
        ("京東", ""),
        ("パソコン", "ja"),
        ("서울", "ko"),
        ("한민국", "ko"),
        ("수도는 서울", "ko"),
        ("\"수도는 서울특별시\"", "ko"),
        ("เมืองหลวง", "th"),
        ("ประเทศ", "th"),
        ("北京 OR 서울", "ko zh"),
        ("京 -北京", "ja"),
    ] {
        assert_eq!(t.found(query).await, expected, "{query}");
    }
    let results = t.search(&SearchRequest::new("计算机")).await;
    assert_eq!(results.hits[0].snippet, "我们在北京大学学习<mark>计算机</mark>科学，用iPhone15手机。");
}

pub(super) async fn very_long_words_are_kept_and_found(t: Fixture<'_>) {
    let long = "x".repeat(70_000);
    t.write(&[page("http://a.org/1", &long, &format!("before {long} after {}", "y".repeat(300)))]).await;
    assert_eq!(t.found("before after").await, "1");
    assert_eq!(t.found(&"y".repeat(300)).await, "1");
    assert_eq!(t.found(&"y".repeat(301)).await, "");
}
