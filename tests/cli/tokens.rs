//! `crawlway token` without a gateway: add, list and revoke.

use crate::home::Home;
use serde_json::json;

/// Output with the random parts and the times replaced.
fn masked(text: &str, secrets: &[(&str, &str)]) -> String {
    secrets.iter().fold(text.to_owned(), |text, (secret, name)| text.replace(secret, name))
}

#[test]
fn a_token_is_shown_once_and_listed_without_its_secret() {
    let home = Home::new();
    let added = home.run("token add Ann@Example.ORG").ok();
    let token = added.lines().next().unwrap();
    assert!(token.starts_with("cw_") && token.len() == 67, "{added}");
    let listed = home.run("token list --json").json();
    let id = listed["tokens"][0]["id"].as_str().unwrap().to_owned();
    insta::assert_snapshot!(masked(&added, &[(token, "TOKEN"), (&id, "ID")]), @r"
    TOKEN
    token `ID` of ann@example.org (role user, does not expire); it is not shown again
    ");
    insta::assert_snapshot!(masked(&home.run("token list").ok(), &[(&id, "t123456789a")]), @r"
    id           email            role  created   state
    t123456789a  ann@example.org  user  just now  valid
    ");
    insta::assert_snapshot!(masked(&home.run(&format!("token revoke {id}")).ok(), &[(&id, "ID")]), @"revoked token `ID` of ann@example.org");
    assert!(home.run("token list").ok().contains("revoked just now"));
    assert!(home.run(&format!("token revoke {id} --json")).json()["revoked_at"].is_string());
    assert!(!home.run("token list --json").ok().contains(&token[3..]));
}

#[test]
fn role_and_lifetime_are_as_asked() {
    let home = Home::new();
    let made = home.run("token add ops@example.org --role admin --expires 30d --json").json();
    assert_eq!((&made["role"], &made["revoked_at"]), (&json!("admin"), &json!(null)));
    assert!(
        home.run("token list")
            .ok()
            .contains(&format!("valid until {}", made["expires_at"].as_str().unwrap()))
    );
    assert!(home.run("token add ops@example.org --expires 1ms").ok().contains("expires "));
    assert!(home.run("token list").ok().contains("expired "));
}

#[test]
fn invalid_arguments_are_refused_and_nothing_is_created() {
    let home = Home::new();
    for (line, expected) in [
        (&["token", "add", "ann"][..], "expected an e-mail address with one `@`"),
        (&["token", "add", "a:b@example.org"], "without quotes, colons"),
        (&["token", "add", "a\n@example.org"], "control"),
        (&["token", "add", "\u{430}nn@example.org"], "ASCII"),
        (&["token", "add", "ann@example.org", "--expires", "soon"], "30d"),
        (&["token", "add", "ann@example.org", "--expires", "0s"], "30d"),
        (&["token", "add", "ann@example.org", "--role", "root"], "admin"),
        (&["token", "revoke", "cw_0123"], "revoke it by its id"),
    ] {
        let refused = crate::home::Ran::of(home.command(line)).refused(2);
        assert!(refused.contains(expected) && !refused.contains("cw_0123"), "{line:?}: {refused}");
    }
    assert!(!home.data().exists());
    assert!(home.run("token list").refused(1).contains("there is no data directory"));
    home.run("token add ann@example.org").ok();
    assert!(home.run("token revoke none").refused(1).contains("no token with the id `none`"));
}

#[test]
fn without_any_token_the_list_says_how_to_make_one() {
    let home = Home::new();
    std::fs::create_dir(home.data()).unwrap();
    insta::assert_snapshot!(home.run("token list").ok(), @"no tokens; `crawlway token add EMAIL` makes one");
    assert_eq!(home.run("token list --json").json(), json!({ "tokens": [] }));
    let unknown = home.run("token revoke t0").refused(1);
    assert!(unknown.contains("no token with the id `t0`"), "{unknown}");
}
