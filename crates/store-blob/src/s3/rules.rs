//! Lifecycle rules as XML. Rules of others are copied as they are, whatever they contain.

use std::fmt;

/// Rule of ours: its id has the prefix, so that several installations can share a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rule {
    prefix: String,
    /// Days until expiry; `None` for no rule.
    days: Option<u64>,
}

impl Rule {
    pub(super) fn new(prefix: &str, days: Option<u64>) -> Self {
        Self { prefix: prefix.to_owned(), days }
    }

    fn id(&self) -> String {
        format!("crawlway {}", self.prefix)
    }

    fn xml(&self, days: u64) -> String {
        let (id, prefix) = (escape(&self.id()), escape(&self.prefix));
        format!(
            "<Rule><ID>{id}</ID><Filter><Prefix>{prefix}</Prefix></Filter><Status>Enabled</Status>\
             <Expiration><Days>{days}</Days></Expiration><AbortIncompleteMultipartUpload>\
             <DaysAfterInitiation>1</DaysAfterInitiation></AbortIncompleteMultipartUpload></Rule>"
        )
    }

    /// Whether a rule of the bucket expires the same objects, no later.
    fn is_covered_by(&self, rule: &str) -> bool {
        let Some(days) = self.days else { return true };
        let number = |text: String| text.trim().parse::<u64>().ok();
        let found = text_of(rule, "Expiration").and_then(|inner| number(text_of(&inner, "Days")?));
        // Further conditions, such as tags, make a rule narrower.
        let is_plain = !rule.contains("<Tag>") && !rule.contains("ObjectSize");
        text_of(rule, "Status").is_some_and(|status| status.trim() == "Enabled")
            && is_plain
            && self
                .prefix
                .starts_with(&text_of(rule, "Prefix").map(|text| unescape(&text)).unwrap_or_default())
            && found.is_some_and(|found| found <= days)
    }

    /// Whether a rule of the bucket with our id is as wanted.
    fn is_same(&self, rule: &str) -> bool {
        let prefix = text_of(rule, "Prefix").map(|text| unescape(&text)).unwrap_or_default();
        let days = text_of(rule, "Expiration").and_then(|inner| text_of(&inner, "Days"));
        self.is_covered_by(rule)
            && prefix == self.prefix
            && days.and_then(|text| text.trim().parse().ok()) == self.days
            && rule.contains("AbortIncompleteMultipartUpload")
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.days {
            Some(days) => write!(f, "objects that begin with `{}` expire after {days} days", self.prefix),
            None => write!(f, "no rule with the id `{}`", self.id()),
        }
    }
}

/// Configuration with our rules added or replaced by their ids; `None` if it has them already, empty if no rule is left.
///
/// # Errors
/// If the configuration has rules that cannot be found in it.
pub(super) fn merge(configuration: &str, ours: &[Rule]) -> Result<Option<String>, &'static str> {
    let rules = split(configuration)?;
    let id = |rule: &str| text_of(rule, "ID").map(|id| unescape(&id));
    let is_wanted = |wanted: &Rule| {
        let found: Vec<&&str> = rules.iter().filter(|rule| id(rule) == Some(wanted.id())).collect();
        match wanted.days {
            Some(_) => found.len() == 1 && wanted.is_same(found[0]),
            None => found.is_empty(),
        }
    };
    if ours.iter().all(is_wanted) {
        return Ok(None);
    }
    let is_ours = |rule: &str| ours.iter().any(|wanted| id(rule) == Some(wanted.id()));
    let mut merged: Vec<String> =
        rules.iter().filter(|rule| !is_ours(rule)).map(|&rule| rule.to_owned()).collect();
    merged.extend(ours.iter().filter_map(|rule| Some(rule.xml(rule.days?))));
    if merged.is_empty() {
        return Ok(Some(String::new()));
    }
    Ok(Some(format!(
        "<LifecycleConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{}</LifecycleConfiguration>",
        merged.concat()
    )))
}

/// Whether some rule of the bucket does what ours would do.
pub(super) fn is_covered(configuration: &str, ours: &Rule) -> bool {
    split(configuration)
        .is_ok_and(|rules| rules.iter().any(|rule| ours.is_covered_by(rule)) || ours.days.is_none())
}

/// Rules of a configuration, as they are.
fn split(configuration: &str) -> Result<Vec<&str>, &'static str> {
    const START: &str = "<Rule>";
    const END: &str = "</Rule>";
    let mut rules = Vec::new();
    let mut rest = configuration;
    while let Some(start) = rest.find(START) {
        let end = rest[start..].find(END).ok_or("a rule has no end")?;
        rules.push(&rest[start..start + end + END.len()]);
        rest = &rest[start + end + END.len()..];
    }
    if configuration.matches("Rule>").count() != 2 * rules.len() {
        return Err("they are written in an unknown way");
    }
    Ok(rules)
}

/// Content of the first element with this name.
pub(super) fn text_of(xml: &str, name: &str) -> Option<String> {
    let start = xml.find(&format!("<{name}>"))? + name.len() + 2;
    let end = xml[start..].find(&format!("</{name}>"))?;
    Some(xml[start..start + end].to_owned())
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn unescape(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'");
    text.replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: &str = "<Rule><ID>logs</ID><Filter><And><Prefix>logs/</Prefix><Tag><Key>a</Key><Value>b</Value></Tag></And>\
                         </Filter><Status>Enabled</Status><Expiration><Days>1</Days></Expiration></Rule>";

    fn ours(days: u64) -> Vec<Rule> {
        vec![Rule::new("a&b/raw/", Some(days)), Rule::new("a&b/test/", Some(days))]
    }

    fn configuration(rules: &str) -> String {
        format!(
            "<?xml version=\"1.0\"?>\n<LifecycleConfiguration xmlns=\"x\">{rules}</LifecycleConfiguration>"
        )
    }

    #[test]
    fn rules_of_others_are_kept_and_ours_are_replaced_by_id() {
        let merged = merge(&configuration(OTHER), &ours(30)).unwrap().unwrap();
        assert!(merged.contains(OTHER), "{merged}");
        assert!(merged.contains("<ID>crawlway a&amp;b/raw/</ID>"), "{merged}");
        assert_eq!(merge(&merged, &ours(30)), Ok(None), "they are there already");
        let changed = merge(&merged, &ours(7)).unwrap().unwrap();
        assert!(changed.contains(OTHER) && changed.contains("<Days>7</Days>"), "{changed}");
        assert_eq!(changed.matches("<Rule>").count(), 3, "{changed}");
    }

    #[test]
    fn without_a_retention_our_rules_are_removed() {
        let never = [Rule::new("raw/", None)];
        assert_eq!(merge("", &never), Ok(None));
        let alone = merge("", &[Rule::new("raw/", Some(3))]).unwrap().unwrap();
        assert_eq!(merge(&alone, &never), Ok(Some(String::new())));
        let both = merge(&configuration(OTHER), &[Rule::new("raw/", Some(3))]).unwrap().unwrap();
        assert!(!merge(&both, &never).unwrap().unwrap().contains("crawlway"));
    }

    #[test]
    fn what_cannot_be_read_is_not_overwritten() {
        for odd in ["<s3:Rule><ID>a</ID></s3:Rule>", "<Rule><ID>a</ID>"] {
            assert!(merge(&configuration(odd), &ours(30)).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_rule_of_another_name_can_do_the_same() {
        let rule = |inner: &str| configuration(&format!("<Rule><ID>x</ID>{inner}</Rule>"));
        let (enabled, filter) = ("<Status>Enabled</Status>", "<Filter><Prefix>raw/</Prefix></Filter>");
        let days = |days: u32| format!("<Expiration><Days>{days}</Days></Expiration>");
        let wanted = Rule::new("raw/", Some(30));
        assert!(is_covered(&rule(&format!("{enabled}{filter}{}", days(30))), &wanted));
        assert!(is_covered(&rule(&format!("{enabled}<Filter></Filter>{}", days(7))), &wanted));
        for narrower in [
            format!("{enabled}{filter}{}", days(31)),
            format!("<Status>Disabled</Status>{filter}{}", days(30)),
            format!("{enabled}<Filter><Prefix>raw/a</Prefix></Filter>{}", days(30)),
            format!("{enabled}<Filter><Tag><Key>a</Key></Tag></Filter>{}", days(30)),
        ] {
            assert!(!is_covered(&rule(&narrower), &wanted), "{narrower}");
        }
    }
}
