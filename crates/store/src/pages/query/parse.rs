//! Parser: `NOT` binds closest, then `AND`, then `OR`.

use super::{
    super::SearchError,
    MAX_CHARACTERS, MAX_CLAUSES, MAX_DEPTH, Query,
    day::parse_moments,
    lex::{Field, Kind, Token, lex, problem},
};

pub(super) fn parse(text: &str) -> Result<Query, SearchError> {
    let length = text.chars().take(MAX_CHARACTERS + 1).count();
    if length > MAX_CHARACTERS {
        let fault = format!("the query is longer than {MAX_CHARACTERS} characters; search for fewer words");
        return Err(problem(MAX_CHARACTERS + 1, fault));
    }
    let tokens = lex(text)?;
    if tokens.is_empty() {
        if text.trim().is_empty() {
            return Err(empty_query());
        }
        return Err(problem(1, "the query has no letter and no digit in it; write a word to search for"));
    }
    let mut parser = Parser { tokens: &tokens, next: 0, depth: 0, clauses: 0 };
    let query = parser.any()?;
    if let Some(Token { at, .. }) = parser.peek() {
        let fault = "this parenthesis was never opened; leave it out, or put it in quotes";
        return Err(problem(*at, fault));
    }
    let at = tokens[0].at;
    if !query.is_positive() {
        let fault = match query {
            Query::Any(_) => {
                "one side of `OR` only says what pages must not have, which nearly all pages fulfil; \
                 add a word there that they must have"
            }
            _ => {
                "this only says what pages must not have, which nearly all pages fulfil; \
                 add a word that they must have"
            }
        };
        return Err(problem(at, fault));
    }
    Ok(query)
}

struct Parser<'a> {
    tokens: &'a [Token],
    next: usize,
    depth: usize,
    clauses: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.next)
    }

    fn take(&mut self, kind: &Kind) -> Option<&'a Token> {
        let token = self.peek().filter(|token| token.kind == *kind)?;
        self.next += 1;
        Some(token)
    }

    fn any(&mut self) -> Result<Query, SearchError> {
        let mut parts = vec![self.all()?];
        while let Some(or) = self.take(&Kind::Or) {
            self.operand_follows(or, "OR")?;
            parts.push(self.all()?);
        }
        Query::any(parts).ok_or_else(empty_query)
    }

    fn all(&mut self) -> Result<Query, SearchError> {
        let mut parts = vec![self.one()?];
        loop {
            if let Some(and) = self.take(&Kind::And) {
                self.operand_follows(and, "AND")?;
            } else if self.peek().is_none_or(|token| matches!(token.kind, Kind::Or | Kind::Close)) {
                break;
            }
            parts.push(self.one()?);
        }
        Query::all(parts).ok_or_else(empty_query)
    }

    /// A clause or a group, with the negations before it.
    fn one(&mut self) -> Result<Query, SearchError> {
        let Some(token) = self.peek() else { return Err(empty_query()) };
        self.next += 1;
        match &token.kind {
            Kind::Not | Kind::Minus => {
                let name = if token.kind == Kind::Not { "NOT" } else { "-" };
                self.operand_follows(token, name)?;
                self.descend(token)?;
                let inner = self.one()?;
                self.depth -= 1;
                Ok(inner.negated())
            }
            Kind::Open => self.group(token),
            Kind::Close => Err(problem(
                token.at,
                "there is nothing before this parenthesis; leave it out, or put it in quotes",
            )),
            Kind::And => Err(missing_operand(token, "AND", "before")),
            Kind::Or => Err(missing_operand(token, "OR", "before")),
            Kind::Word(word) => self.clause(token, Query::Word(word.clone())),
            Kind::Phrase(phrase) => self.clause(token, Query::Phrase(phrase.clone())),
            Kind::Field(field, value, quoted) => {
                let query = filter(*field, value, *quoted).map_err(|fault| problem(token.at, fault))?;
                self.clause(token, query)
            }
        }
    }

    fn group(&mut self, open: &Token) -> Result<Query, SearchError> {
        self.descend(open)?;
        if self.peek().is_some_and(|token| token.kind == Kind::Close) {
            return Err(problem(
                open.at,
                "there is nothing to search for between these parentheses; leave them out",
            ));
        }
        if self.peek().is_none() {
            return Err(never_closed(open));
        }
        let inner = self.any()?;
        if self.take(&Kind::Close).is_none() {
            return Err(never_closed(open));
        }
        self.depth -= 1;
        Ok(inner)
    }

    fn clause(&mut self, token: &Token, query: Query) -> Result<Query, SearchError> {
        self.clauses += 1;
        if self.clauses > MAX_CLAUSES {
            let fault = format!("the query has more than {MAX_CLAUSES} words and filters; search for fewer");
            return Err(problem(token.at, fault));
        }
        Ok(query)
    }

    fn descend(&mut self, token: &Token) -> Result<(), SearchError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            let fault =
                format!("parentheses and negations go deeper than {MAX_DEPTH} levels; write it flatter");
            return Err(problem(token.at, fault));
        }
        Ok(())
    }

    fn operand_follows(&self, operator: &Token, name: &str) -> Result<(), SearchError> {
        match self.peek().map(|token| &token.kind) {
            None | Some(Kind::And | Kind::Or | Kind::Close) => Err(missing_operand(operator, name, "after")),
            Some(_) => Ok(()),
        }
    }
}

fn empty_query() -> SearchError {
    problem(1, "the query is empty; write a word to search for")
}

fn missing_operand(operator: &Token, name: &str, side: &str) -> SearchError {
    let fault = format!(
        "there is nothing to search for {side} `{name}`; add it, or write \"{name}\" in quotes for the word itself"
    );
    problem(operator.at, fault)
}

fn never_closed(open: &Token) -> SearchError {
    problem(open.at, "this parenthesis is never closed; add a ) where the group ends, or put it in quotes")
}

fn filter(field: Field, value: &str, quoted: bool) -> Result<Query, String> {
    match field {
        Field::Title if quoted => Ok(Query::TitlePhrase(value.to_owned())),
        Field::Title => Ok(Query::TitleWord(value.to_owned())),
        Field::Host => host(value),
        Field::Date => dates(value),
        Field::After => parse_moments(value).map(|(first, _)| Query::Crawled { from: Some(first), to: None }),
        Field::Before => parse_moments(value).map(|(_, last)| Query::Crawled { from: None, to: Some(last) }),
    }
}

fn host(value: &str) -> Result<Query, String> {
    // Parsed as in a URL, so that Unicode and Punycode (`xn--`) forms are equal.
    let name = value.trim_start_matches("*.").trim_matches('.');
    let fits = !name.contains('*');
    url::Host::parse(name).ok().filter(|_| fits).map(|host| Query::Host(host.to_string())).ok_or_else(|| {
        format!("`{value}` is not a host; write its name alone, such as host:example.org, which finds its subdomains too")
    })
}

fn dates(value: &str) -> Result<Query, String> {
    let Some((from, to)) = value.split_once("..") else {
        let (first, last) = parse_moments(value)?;
        return Ok(Query::Crawled { from: Some(first), to: Some(last) });
    };
    let from = if from.is_empty() { None } else { Some(parse_moments(from)?.0) };
    let to = if to.is_empty() { None } else { Some(parse_moments(to)?.1) };
    match (from, to) {
        (None, None) => {
            Err("the range has no end at all; write date:2026-01-01..2026-02-01, or leave one of them out"
                .into())
        }
        (Some(first), Some(last)) if first.start() > last.end() => {
            Err(format!("the range ends on {last}, before it starts on {first}; swap them"))
        }
        _ => Ok(Query::Crawled { from, to }),
    }
}
