//! Reads `deploy/compose.yaml` as compose does: merges, then variables.

use serde_json::Value;
use std::{collections::BTreeMap, fs, path::PathBuf};

/// The variables that compose finds in `.env`.
pub(crate) type Variables = BTreeMap<String, String>;

/// A file of the repository.
pub(crate) fn path_of(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

pub(crate) fn read(name: &str) -> String {
    fs::read_to_string(path_of(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The services, with everything in them that an `.env` without a gap would give.
pub(crate) fn compose() -> Value {
    compose_with(&pretended()).unwrap()
}

/// As compose reads it with these variables, or what it would refuse to start for.
pub(crate) fn compose_with(variables: &Variables) -> Result<Value, String> {
    let mut document: serde_norway::Value = serde_norway::from_str(&read("deploy/compose.yaml")).unwrap();
    document.apply_merge().unwrap();
    let mut document = serde_json::to_value(document).unwrap();
    put_in(&mut document, variables)?;
    Ok(document)
}

/// The names in `.env.example`, of which none may have a value.
pub(crate) fn documented_variables() -> Vec<String> {
    let text = read("deploy/.env.example");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let name = |line: &str| match line.split_once('=') {
        Some((name, "")) => name.to_owned(),
        _ => panic!(".env.example: `{line}` is not a name, `=` and nothing"),
    };
    lines.map(name).collect()
}

/// A value for each variable, by which it is known again.
pub(crate) fn pretended() -> Variables {
    let value = |name: &str| match name {
        "CRAWL_WORKERS" => "3".to_owned(),
        _ => format!("pretended{}", name.replace('_', "").to_lowercase()),
    };
    documented_variables().into_iter().map(|name| (name.clone(), value(&name))).collect()
}

/// A service's variables as its container has them.
pub(crate) fn environment(service: &Value) -> Variables {
    let Some(entries) = service["environment"].as_object() else { return Variables::new() };
    entries.iter().map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect()
}

/// The services, by name.
pub(crate) fn services(compose: &Value) -> impl Iterator<Item = (&str, &Value)> {
    compose["services"].as_object().unwrap().iter().map(|(name, service)| (name.as_str(), service))
}

/// The services that run our program.
pub(crate) fn ours(compose: &Value) -> impl Iterator<Item = (&str, &Value)> {
    services(compose).filter(|(_, service)| !service["build"].is_null())
}

/// The services that run a server.
pub(crate) fn servers(compose: &Value) -> impl Iterator<Item = (&str, &Value)> {
    services(compose).filter(|(_, service)| service["build"].is_null())
}

/// A list of texts.
pub(crate) fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().map(|text| text.as_str().unwrap()).collect()
}

fn put_in(value: &mut Value, variables: &Variables) -> Result<(), String> {
    match value {
        Value::String(text) => *text = filled(text, variables)?,
        Value::Array(values) => values.iter_mut().try_for_each(|value| put_in(value, variables))?,
        Value::Object(entries) => entries.values_mut().try_for_each(|value| put_in(value, variables))?,
        _ => {}
    }
    Ok(())
}

/// `${NAME}`, `${NAME:-default}`, `${NAME:?what to do}` and `$$`. An empty variable counts as none, as the colon says.
fn filled(text: &str, variables: &Variables) -> Result<String, String> {
    let Some((before, after)) = text.split_once('$') else { return Ok(text.to_owned()) };
    if let Some(rest) = after.strip_prefix('$') {
        return Ok(format!("{before}${}", filled(rest, variables)?));
    }
    let (inner, rest) =
        after.strip_prefix('{').and_then(|braced| braced.split_once('}')).unwrap_or_else(|| {
            panic!("`{text}`: a variable is written in braces");
        });
    let name = &inner[..inner.find(':').unwrap_or(inner.len())];
    let given = variables.get(name).filter(|value| !value.is_empty());
    let value = match (given, &inner[name.len()..]) {
        (Some(value), _) => value.clone(),
        (None, otherwise) => match otherwise.split_at_checked(2) {
            Some((":-", default)) => default.to_owned(),
            Some((":?", what_to_do)) => return Err(what_to_do.to_owned()),
            _ => panic!("`{text}`: `{name}` may be missing, and nothing is said for that case"),
        },
    };
    Ok(format!("{before}{value}{}", filled(rest, variables)?))
}

#[test]
fn variables_are_put_in_as_compose_does() {
    let variables = Variables::from([("A".to_owned(), "1".to_owned()), ("EMPTY".to_owned(), String::new())]);
    let filled = |text| filled(text, &variables);
    assert_eq!(filled("x${A}y${A:-2}$$z${B:-3}").unwrap(), "x1y1$z3");
    assert_eq!(filled("${EMPTY:-4}").unwrap(), "4");
    assert_eq!(filled("${EMPTY:?set EMPTY}").unwrap_err(), "set EMPTY");
}
