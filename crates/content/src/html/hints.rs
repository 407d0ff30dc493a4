//! Hints from the class, id, role and style of an element.
//!
//! Names are split into words: `PostFooter_root`, `post-footer` and `post_footer` are *post* and *footer*. No word is
//! specific to one site.

use super::attributes::{Attributes, Name};

/// Set of hints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Hints(u16);

impl Hints {
    pub(crate) const NONE: Self = Self(0);
    /// Name of boilerplate: menus, sharing, advertisements, banners and the like.
    pub(crate) const CHROME: Self = Self(1);
    /// Name of comments.
    pub(crate) const COMMENTS: Self = Self(1 << 1);
    /// Name of a header, of the site or of the article.
    pub(crate) const HEADER: Self = Self(1 << 2);
    /// Name of content.
    pub(crate) const CONTENT: Self = Self(1 << 3);
    /// Hidden.
    pub(crate) const HIDDEN: Self = Self(1 << 4);
    /// Note, tip or warning inside the text.
    pub(crate) const NOTE: Self = Self(1 << 5);
    /// Role of main content.
    pub(crate) const MAIN: Self = Self(1 << 6);
    /// Role of boilerplate.
    pub(crate) const CHROME_ROLE: Self = Self(1 << 7);
    /// Role or item property of an article.
    pub(crate) const ARTICLE: Self = Self(1 << 8);
    /// Role of a layout table.
    pub(crate) const LAYOUT: Self = Self(1 << 9);
    /// Has an e-mail field.
    pub(crate) const EMAIL_FIELD: Self = Self(1 << 10);
    /// Name of an author box of a post; boilerplate except for the author's name.
    pub(crate) const AUTHOR_BOX: Self = Self(1 << 11);

    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl std::ops::BitOr for Hints {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Hints of a block-level element.
pub(crate) fn of_block(attributes: &Attributes) -> Hints {
    if attributes.is_empty() {
        return Hints::NONE;
    }
    let mut hints = Hints::NONE;
    if is_hidden(attributes) {
        hints.add(Hints::HIDDEN);
    }
    if let Some(role) = attributes.get(Name::Role) {
        hints.add(role_hint(role));
    }
    if let Some(property) = attributes.get(Name::ItemProp)
        && matches!(property, b"articleBody" | b"description" | b"reviewBody" | b"text")
    {
        hints.add(Hints::ARTICLE);
    }
    let mut words = Words::default();
    for name in [Name::Class, Name::Id] {
        if let Some(value) = attributes.get(name) {
            words.read(value);
        }
    }
    hints.add(words.hints());
    hints
}

/// Hints of a custom element, whose name is read like a class.
pub(crate) fn of_custom(name: &[u8], attributes: &Attributes) -> Hints {
    let mut words = Words::default();
    words.read(name);
    let is_control = name.rsplit(|&byte| byte == b'-').next().is_some_and(|last| {
        matches!(
            last,
            b"button" | b"radio" | b"checkbox" | b"select" | b"option" | b"input" | b"toggle" | b"switch"
        )
    });
    let mut hints = of_block(attributes) | words.hints();
    if is_control {
        hints.add(Hints::CHROME);
    }
    hints
}

/// Whether an `<input>` is an e-mail field.
pub(crate) fn is_email_field(attributes: &Attributes) -> bool {
    let is_mail = |value: &[u8]| value.to_ascii_lowercase().windows(4).any(|part| part == b"mail");
    [Name::Type, Name::Named, Name::Id].into_iter().any(|name| attributes.get(name).is_some_and(is_mail))
}

/// Whether the element is hidden, or only for screen readers.
pub(crate) fn is_hidden(attributes: &Attributes) -> bool {
    if attributes.is_empty() {
        return false;
    }
    if attributes.get(Name::Hidden).is_some_and(|value| !value.eq_ignore_ascii_case(b"until-found")) {
        return true;
    }
    if attributes.get(Name::AriaHidden).is_some_and(|value| value.eq_ignore_ascii_case(b"true")) {
        return true;
    }
    if attributes.get(Name::Style).is_some_and(is_hiding_style) {
        return true;
    }
    attributes.get(Name::Class).is_some_and(|class| {
        class.split(u8::is_ascii_whitespace).any(|name| {
            matches!(
                name,
                b"sr-only"
                    | b"visually-hidden"
                    | b"visuallyhidden"
                    | b"screen-reader-text"
                    | b"screenreader"
                    | b"u-hidden-visually"
            )
        })
    })
}

fn is_hiding_style(style: &[u8]) -> bool {
    style.split(|&byte| byte == b';').any(|declaration| {
        let Some(colon) = declaration.iter().position(|&byte| byte == b':') else { return false };
        let property = declaration[..colon].trim_ascii();
        let value = declaration[colon + 1..].trim_ascii();
        let value =
            value.split(|byte| byte.is_ascii_whitespace() || *byte == b'!').next().unwrap_or_default();
        (property.eq_ignore_ascii_case(b"display") && value.eq_ignore_ascii_case(b"none"))
            || (property.eq_ignore_ascii_case(b"visibility") && value.eq_ignore_ascii_case(b"hidden"))
    })
}

fn role_hint(role: &[u8]) -> Hints {
    match role.trim_ascii() {
        b"main" => Hints::MAIN,
        b"presentation" | b"none" => Hints::LAYOUT,
        b"article" => Hints::ARTICLE,
        b"navigation" | b"banner" | b"contentinfo" | b"complementary" | b"search" | b"dialog"
        | b"alertdialog" | b"menu" | b"menubar" | b"toolbar" | b"tooltip" | b"button" | b"tablist"
        | b"doc-pagelist" | b"doc-toc" => Hints::CHROME_ROLE,
        b"note" | b"doc-tip" | b"doc-notice" | b"doc-footnote" | b"doc-endnotes" => Hints::NOTE,
        _ => Hints::NONE,
    }
}

/// Maximum length of a word, and of a pair of words.
const MAX_WORD: usize = 20;

/// Words of class and id.
#[derive(Default)]
struct Words {
    word: [u8; MAX_WORD],
    len: usize,
    /// Previous word joined with the current one: `side-bar` is `sidebar` too.
    pair: [u8; MAX_WORD],
    pair_len: usize,
    hints: Hints,
    results: bool,
    search: bool,
}

impl Words {
    fn read(&mut self, value: &[u8]) {
        let mut previous = b' ';
        for &byte in value {
            if !byte.is_ascii_alphabetic() {
                self.end_word(byte.is_ascii_whitespace());
            } else {
                if byte.is_ascii_uppercase() && previous.is_ascii_lowercase() {
                    self.end_word(false);
                }
                self.push(byte.to_ascii_lowercase());
            }
            previous = byte;
        }
        self.end_word(true);
    }

    fn push(&mut self, byte: u8) {
        if self.len < MAX_WORD {
            self.word[self.len] = byte;
        }
        self.len += 1;
    }

    fn end_word(&mut self, last_of_name: bool) {
        if self.len > 0 && self.len <= MAX_WORD {
            let word = &self.word[..self.len];
            self.hints.add(word_hint(word));
            self.results |= matches!(word, b"result" | b"results");
            self.search |= word == b"search";
            let joined = self.pair_len + self.len;
            if self.pair_len > 0 && joined <= MAX_WORD {
                self.pair[self.pair_len..joined].copy_from_slice(word);
                self.hints.add(pair_hint(&self.pair[..joined]));
            }
            self.pair[..self.len].copy_from_slice(word);
            self.pair_len = self.len;
        }
        self.len = 0;
        if last_of_name {
            self.pair_len = 0;
        }
    }

    fn hints(self) -> Hints {
        let mut hints = self.hints;
        if self.search && !self.results {
            hints.add(Hints::CHROME);
        }
        hints
    }
}

fn word_hint(word: &[u8]) -> Hints {
    if word.starts_with(b"cookie") {
        return Hints::CHROME;
    }
    match word {
        // Navigation.
        b"nav" | b"navi" | b"navbar" | b"navigation" | b"navlist" | b"navbox" | b"navlinks" | b"navigator" | b"topnav"
        | b"sidenav" | b"subnav" | b"menu" | b"menubar" | b"menus" | b"submenu" | b"megamenu" | b"breadcrumb"
        | b"breadcrumbs" | b"crumb" | b"crumbs" | b"pager" | b"pagination" | b"paginator" | b"paging" | b"prevnext"
        | b"skiplink" | b"skiplinks" | b"toc" | b"totop" | b"backtotop" | b"offcanvas"
        // Header, footer and sidebars.
        | b"footer" | b"colophon" | b"copyright" | b"masthead" | b"topbar" | b"sidebar" | b"sidebars" | b"rail"
        | b"aside" | b"announcement"
        // Overlays.
        | b"cookie" | b"cookies" | b"consent" | b"gdpr" | b"ccpa" | b"modal" | b"popup" | b"popover"
        | b"lightbox" | b"toast" | b"tooltip" | b"dropdown" | b"flyout" | b"interstitial"
        // Subscriptions and log-in.
        | b"newsletter" | b"newsletters" | b"subscribe" | b"subscription" | b"signup" | b"signin" | b"login" | b"register" | b"paywall"
        | b"feedback" | b"donate" | b"donation" | b"cta"
        // Sharing.
        | b"share" | b"sharing" | b"shares" | b"sharebar" | b"sharedaddy" | b"social" | b"socials" | b"sns" | b"addthis" | b"follow"
        // Advertising.
        | b"ad" | b"ads" | b"advert" | b"adverts" | b"advertisement" | b"advertisements" | b"advertising" | b"adsense"
        | b"adslot" | b"adunit" | b"adbox" | b"sponsor" | b"sponsored" | b"sponsors" | b"promo" | b"promos"
        | b"promoted" | b"promotion" | b"promotions" | b"dfp" | b"upsell" | b"crosssell"
        // Recommendations.
        | b"related" | b"recommended" | b"recommendation" | b"recommendations" | b"recirc" | b"recirculation"
        | b"similar" | b"suggested" | b"suggestions" | b"trending" | b"popular" | b"mostread" | b"readnext"
        | b"upnext" | b"readmore" | b"tags" | b"taglist" | b"tagcloud" | b"labels"
        // Tools.
        | b"toolbar" | b"toolbox" | b"actions" | b"searchbox" | b"searchform" | b"searchbar" | b"editsection" | b"printonly"
        | b"noprint" | b"reviews" | b"review" | b"signature"
        // Other languages.
        | b"teilen" | b"partage" | b"partager" | b"compartir" | b"condividi" | b"fusszeile" | b"kopfzeile" | b"seitenleiste"
        | b"verwandte" | b"relacionados" | b"correlati" | b"werbung" | b"publicidad" | b"publicite" | b"pubblicita"
        | b"rodape" | b"piedepagina" => Hints::CHROME,
        b"postprofile" | b"userinfo" | b"userdetails" | b"authorinfo" | b"poster" => Hints::CHROME | Hints::AUTHOR_BOX,
        b"comments" | b"comment" | b"commentlist" | b"disqus" | b"respond" | b"replyform" | b"commentform"
        | b"kommentar" | b"kommentare" | b"commentaire" | b"commentaires" | b"comentario" | b"comentarios" | b"commenti"
        | b"reacties" => Hints::COMMENTS,
        b"header" | b"banner" => Hints::HEADER,
        b"article" | b"content" | b"post" | b"entry" | b"story" | b"body" | b"text" | b"main" | b"product"
        | b"description" | b"details" | b"recipe" | b"job" | b"thread" | b"topic" | b"question" | b"answer"
        | b"message" | b"document" | b"doc" | b"docs" | b"markdown" | b"prose" => Hints::CONTENT,
        b"note" | b"admonition" | b"callout" | b"tip" | b"warning" | b"caution" | b"important" | b"infobox" | b"alert"
        | b"quote" | b"blockquote" | b"footnote" | b"footnotes" | b"pullquote" | b"sidenote" | b"marginnote" | b"factbox" | b"hint" => Hints::NOTE,
        _ => Hints::NONE,
    }
}

fn pair_hint(pair: &[u8]) -> Hints {
    match pair {
        b"sidebar" | b"sidecol" | b"sidecolumn" | b"sidenav" | b"navbar" | b"topbar" | b"topnav"
        | b"skiplink" | b"skipto" | b"backto" | b"totop" | b"readmore" | b"readnext" | b"upnext"
        | b"nextup" | b"morefrom" | b"morestories" | b"alsolike" | b"youmay" | b"mostread"
        | b"mostpopular" | b"mostviewed" | b"recentposts" | b"recentlyviewed" | b"recentcomments"
        | b"latestposts" | b"latestnews" | b"alsobought" | b"crosssell" | b"signup" | b"signin"
        | b"login" | b"followus" | b"tagcloud" | b"taglist" | b"langswitcher" | b"languageswitcher"
        | b"languageselector" | b"authorbio" | b"authorbox" | b"aboutauthor" | b"sitefooter"
        | b"siteheader" | b"siteinfo" | b"articletools" | b"posttools" | b"pagetools" | b"editlink"
        | b"editpage" | b"tableofcontents" | b"tablecontents" | b"onthispage" | b"onpage" | b"washelpful"
        | b"thishelpful" | b"prevnext" | b"socialmedia" | b"quicklinks" | b"utilitybar" | b"noticebar"
        | b"widgetarea" | b"chatwidget" | b"whosonline" | b"mailinglist" => Hints::CHROME,
        b"postprofile" | b"userinfo" | b"userdetails" | b"messageuser" | b"postauthor" | b"userprofile" => {
            Hints::CHROME | Hints::AUTHOR_BOX
        }
        b"commentform" | b"replyform" => Hints::COMMENTS,
        _ => Hints::NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(class: &str) -> Hints {
        let mut words = Words::default();
        words.read(class.as_bytes());
        words.hints()
    }

    #[test]
    fn names_are_split_into_words() {
        for class in
            ["sidebar", "SideBar", "side-bar", "l-sidebar_2", "Footer_root__x8Hs", "cookieBanner", "sideNav"]
        {
            assert!(hints(class).has(Hints::CHROME), "{class}");
        }
        for class in
            ["download", "navy", "adhesive", "header-image", "shareholder", "search-results", "side bar"]
        {
            assert!(!hints(class).has(Hints::CHROME), "{class}");
        }
    }

    #[test]
    fn styles_that_hide() {
        assert!(is_hiding_style(b"color:red; DISPLAY : none !important"));
        assert!(!is_hiding_style(b"display:none-such"));
        assert!(!is_hiding_style(b"list-style:display"));
    }
}
