//! HTML elements and their categories.

use html5gum::State;

macro_rules! tags {
    ($($variant:ident = $name:literal),* $(,)?) => {
        /// HTML element; `Custom` for custom elements, which have a hyphen in their name, and `Other` for elements without rules.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub(crate) enum Tag { Other, Custom, $($variant),* }

        impl Tag {
            /// The tag of a lower-case element name.
            pub(crate) fn from_name(name: &[u8]) -> Self {
                $(const $variant: &[u8] = $name.as_bytes();)*
                #[allow(non_upper_case_globals, reason = "the constants are named after the variants")]
                match name {
                    $($variant => Self::$variant,)*
                    _ if name.contains(&b'-') => Self::Custom,
                    _ => Self::Other,
                }
            }
        }
    };
}

#[allow(non_upper_case_globals, reason = "the constants are named after the variants")]
mod names {
    use super::State;

    tags! {
        A = "a", Address = "address", Area = "area", Article = "article", Aside = "aside", Audio = "audio",
        Base = "base", Blockquote = "blockquote", Body = "body", Br = "br", Button = "button", Canvas = "canvas",
        Caption = "caption", Center = "center", Code = "code", Col = "col", Colgroup = "colgroup",
        Datalist = "datalist", Dd = "dd", Details = "details", Dialog = "dialog", Div = "div", Dl = "dl", Dt = "dt",
        Embed = "embed", Fieldset = "fieldset", Figcaption = "figcaption", Figure = "figure", Footer = "footer",
        Form = "form", Frameset = "frameset", H1 = "h1", H2 = "h2", H3 = "h3", H4 = "h4", H5 = "h5", H6 = "h6",
        Head = "head", Header = "header", Hgroup = "hgroup", Hr = "hr", Html = "html", Iframe = "iframe",
        Img = "img", Input = "input", Label = "label", Legend = "legend", Li = "li", Link = "link", Main = "main",
        Map = "map", Math = "math", Menu = "menu", Meta = "meta", Nav = "nav", Noembed = "noembed",
        Noframes = "noframes", Noscript = "noscript", Object = "object", Ol = "ol", Optgroup = "optgroup",
        Option = "option", P = "p", Param = "param", Picture = "picture", Plaintext = "plaintext", Pre = "pre",
        Rp = "rp", Rt = "rt", Script = "script", Search = "search", Section = "section", Select = "select",
        Source = "source", Style = "style", Summary = "summary", Svg = "svg", Table = "table", Tbody = "tbody",
        Td = "td", Template = "template", Textarea = "textarea", Tfoot = "tfoot", Th = "th", Thead = "thead",
        Title = "title", Tr = "tr", Track = "track", Ul = "ul", Video = "video", Wbr = "wbr", Xmp = "xmp",
    }

    /// Number of tags.
    pub(crate) const TAG_COUNT: usize = Tag::Xmp as usize + 1;

    impl Tag {
        /// Whether the element has no content and no end tag.
        pub(crate) fn is_void(self) -> bool {
            matches!(
                self,
                Self::Area
                    | Self::Base
                    | Self::Br
                    | Self::Col
                    | Self::Embed
                    | Self::Hr
                    | Self::Img
                    | Self::Input
                    | Self::Link
                    | Self::Meta
                    | Self::Param
                    | Self::Source
                    | Self::Track
                    | Self::Wbr
            )
        }

        /// Whether the element is block-level.
        pub(crate) fn is_block(self) -> bool {
            matches!(
                self,
                Self::Address
                    | Self::Article
                    | Self::Aside
                    | Self::Blockquote
                    | Self::Caption
                    | Self::Center
                    | Self::Dd
                    | Self::Details
                    | Self::Dialog
                    | Self::Div
                    | Self::Dl
                    | Self::Dt
                    | Self::Fieldset
                    | Self::Figcaption
                    | Self::Figure
                    | Self::Footer
                    | Self::Form
                    | Self::H1
                    | Self::H2
                    | Self::H3
                    | Self::H4
                    | Self::H5
                    | Self::H6
                    | Self::Header
                    | Self::Hgroup
                    | Self::Li
                    | Self::Main
                    | Self::Menu
                    | Self::Nav
                    | Self::Ol
                    | Self::P
                    | Self::Plaintext
                    | Self::Pre
                    | Self::Search
                    | Self::Section
                    | Self::Summary
                    | Self::Table
                    | Self::Tbody
                    | Self::Td
                    | Self::Tfoot
                    | Self::Th
                    | Self::Thead
                    | Self::Tr
                    | Self::Ul
                    | Self::Xmp
            )
        }

        /// Whether the text of the element is not visible.
        pub(crate) fn is_invisible(self) -> bool {
            matches!(
                self,
                Self::Audio
                    | Self::Canvas
                    | Self::Datalist
                    | Self::Iframe
                    | Self::Math
                    | Self::Noembed
                    | Self::Noframes
                    | Self::Noscript
                    | Self::Object
                    | Self::Rp
                    | Self::Script
                    | Self::Style
                    | Self::Svg
                    | Self::Template
                    | Self::Textarea
                    | Self::Video
            )
        }

        /// Whether the element is a form control: visible, but never content.
        pub(crate) fn is_control(self) -> bool {
            matches!(self, Self::Button | Self::Label | Self::Legend | Self::Select)
        }

        /// Level 1 to 6 of a heading.
        pub(crate) fn heading_level(self) -> Option<u8> {
            (Self::H1 as u8..=Self::H6 as u8).contains(&(self as u8)).then(|| self as u8 - Self::H1 as u8 + 1)
        }

        pub(crate) fn is_list(self) -> bool {
            matches!(self, Self::Ul | Self::Ol | Self::Menu | Self::Dl)
        }

        pub(crate) fn is_cell(self) -> bool {
            matches!(self, Self::Td | Self::Th | Self::Caption)
        }

        pub(crate) fn is_table_part(self) -> bool {
            matches!(
                self,
                Self::Table
                    | Self::Tbody
                    | Self::Thead
                    | Self::Tfoot
                    | Self::Tr
                    | Self::Td
                    | Self::Th
                    | Self::Caption
            )
        }

        /// Tokenizer state after the start tag, if not markup. `<noscript>` is markup, as in a browser without scripts.
        pub(crate) fn text_state(self) -> Option<State> {
            match self {
                Self::Title | Self::Textarea => Some(State::RcData),
                Self::Script => Some(State::ScriptData),
                Self::Style | Self::Iframe | Self::Noembed | Self::Noframes | Self::Xmp => {
                    Some(State::RawText)
                }
                Self::Plaintext => Some(State::PlainText),
                _ => None,
            }
        }
    }
}

pub(crate) use names::{TAG_COUNT, Tag};
