//! Settings: sources, precedence, and errors.

use crate::home::Home;
use serde_json::json;
use std::fs;

#[test]
fn defaults_are_shown() {
    insta::assert_snapshot!(Home::new().run("config show").ok());
}

#[test]
fn the_output_of_show_is_a_file_with_the_same_effect() {
    let home = Home::new();
    home.write(
        "crawlway.toml",
        "[queue.\"scraped.kijiji\"]\nlease = \"2min\"\n[queue.jobs]\nprefetch = 1\n[brokers.events]\n[search]\nbroker = \"events\"\n",
    );
    let shown = home.run_with("config show", &[("CRAWLWAY_QUEUE__JOBS__LEASE", "1h")]).ok();
    home.write("again.toml", &shown);
    let again = home.run("config show --config again.toml").ok();
    let values = |text: &str| -> toml::Table { text.parse().unwrap() };
    assert_eq!(values(&shown), values(&again));
    assert_eq!(values(&shown)["queue"]["jobs"]["lease"].as_str(), Some("1h"));
    assert_eq!(values(&shown)["brokers"]["events"]["kind"].as_str(), Some("embedded"));
}

#[test]
fn later_sources_win() {
    let home = Home::new();
    home.write(
        "crawlway.toml",
        "data_dir = \"from-file\"\n[broker.embedded]\nmax_message = 131072\n[log]\nlevel = \"info\"\n",
    );
    let variables = [
        ("CRAWLWAY_DATA_DIR", "from-variable"),
        ("CRAWLWAY_BROKER__EMBEDDED__MAX_MESSAGE", "2MiB"),
        ("CRAWLWAY_QUEUE__DEFAULTS__PREFETCH", "7"),
    ];
    insta::assert_snapshot!(home.run_with("config show --data from-flag", &variables).ok());
    let shown: serde_json::Value =
        serde_json::from_str(&home.run_with("config show --json --data from-flag", &variables).ok()).unwrap();
    let setting = |key: &str| shown["settings"][key].clone();
    assert_eq!(shown["file"], "crawlway.toml");
    assert_eq!(
        setting("data_dir"),
        json!({ "value": "from-flag", "source": { "kind": "flag", "name": "--data" } })
    );
    assert_eq!(
        setting("broker.embedded.max_message"),
        json!({ "value": "2MiB", "source": { "kind": "variable", "name": "CRAWLWAY_BROKER__EMBEDDED__MAX_MESSAGE" } })
    );
    assert_eq!(
        setting("log.level"),
        json!({ "value": "info", "source": { "kind": "file", "path": "crawlway.toml", "line": 5 } })
    );
    assert_eq!(setting("queue.defaults.prefetch")["value"], 7);
    assert_eq!(setting("log.format"), json!({ "value": "text", "source": { "kind": "default" } }));
}

#[test]
fn the_file_is_that_of_the_flag_then_the_variable_then_the_working_directory() {
    let home = Home::new();
    for name in ["crawlway.toml", "variable.toml", "flag.toml"] {
        home.write(name, "[log]\nlevel = \"info\"\n");
    }
    let variable = [("CRAWLWAY_CONFIG", "variable.toml")];
    let shown = |line: &str, variables: &[(&str, &str)]| home.run_with(line, variables).ok();
    assert!(shown("config show", &[]).contains("# crawlway.toml:2"));
    assert!(shown("config show", &variable).contains("# variable.toml:2"));
    assert!(shown("config show --config flag.toml", &variable).contains("# flag.toml:2"));
}

#[test]
fn a_valid_config_is_reported() {
    let home = Home::new();
    assert_eq!(
        home.run("config check").ok(),
        "ok: no config file; 0 of 172 settings are set, the others have their defaults\n"
    );
    home.write("crawlway.toml", "[log]\nlevel = \"info\"\n");
    assert_eq!(
        home.run_with("config check", &[("CRAWLWAY_DATA_DIR", "d")]).ok(),
        "ok: `crawlway.toml`; 2 of 172 settings are set, the others have their defaults\n"
    );
    let checked = home.run("config check --json").json();
    assert_eq!((&checked["ok"], &checked["problems"]), (&json!(true), &json!([])));
    let names: Vec<_> = checked["roles"].as_array().unwrap().iter().map(|role| &role["role"]).collect();
    assert_eq!(
        names,
        [
            "gateway",
            "search:crawl",
            "search:index",
            "inventory:fetch",
            "inventory:fetch_waiting",
            "requests:fetch",
            "requests:responses"
        ]
    );
}

/// Two processes with some stores of their own would break politeness together, and lose pages.
#[test]
fn stores_are_shared_all_or_none() {
    let home = Home::new();
    let rabbitmq = ("CRAWLWAY_BROKER__KIND", "rabbitmq");
    let refused = home.run_with("config check", &[rabbitmq]).refused(2);
    assert!(refused.contains(
        "each would have its own of the frontier, the trails, the seen URLs, the rate limiter, the inventory, the requests and the search index"
    ));
    home.write(
        "crawlway.toml",
        "[broker.rabbitmq]\nuser = \"a\"\npassword = \"b\"\n[redis]\nurl = \"redis://a\"\n[records.postgresql]\nurl = \"postgres://a/b\"\n",
    );
    home.run_with("config check", &[rabbitmq, ("CRAWLWAY_ONLY_PROCESS", "true")]).ok();
    let all = [
        rabbitmq,
        ("CRAWLWAY_RECORDS__KIND", "postgresql"),
        ("CRAWLWAY_SEEN__KIND", "redis"),
        ("CRAWLWAY_RATE_LIMIT__KIND", "redis"),
        ("CRAWLWAY_SEARCH__INDEX", "postgresql"),
    ];
    home.run_with("config check", &all).ok();
    // The index is in the database of the records.
    let refused = home.run_with("config check", &all[4..]).refused(2);
    assert!(refused.contains("`search.index` is \"postgresql\""), "{refused}");
    // So can the rate limiter.
    let gate = ("CRAWLWAY_RATE_LIMIT__KIND", "postgresql");
    let with_gate: Vec<_> =
        all.iter().map(|setting| if setting.0 == gate.0 { gate } else { *setting }).collect();
    home.run_with("config check", &with_gate).ok();
    let refused = home.run_with("config check", &[gate]).refused(2);
    assert!(refused.contains("`rate_limit.kind` is \"postgresql\""), "{refused}");
}

#[test]
fn credentials_of_rabbitmq_come_from_the_variables_of_the_contract() {
    let home = Home::new();
    let seed = [("RABBITMQ_USER", "ada"), ("RABBITMQ_PASSWORD", "a-secret-password")];
    let shown = home.run_with("config show", &seed).ok();
    assert!(shown.contains("user = \"ada\"") && shown.contains("RABBITMQ_USER"), "{shown}");
    assert!(!shown.contains("a-secret-password"), "{shown}");
    let both = [seed[0], ("CRAWLWAY_BROKER__RABBITMQ__USER", "grace")];
    assert!(home.run_with("config show", &both).ok().contains("user = \"grace\""), "our own variables win");
}

/// A file with one of every mistake.
const WRONG: &str = r#"data_dri = "x"
[broker]
kind = "carrier-pigeon"
[broker.embedded]
max_message = "64 MegaBytes"
max_segment = 12
[brokr.embedded]
max_message = 1
[queue.default]
lease = "1s"
[queue.defaults]
prefetch = "many"
lease = 60
max_attempts = 0
[queue."my queue"]
lease = "1s"
[queue.jobs]
max_atempts = 3
[log]
level = "loud"
format = ["text"]
[log.sampling]
"#;

#[test]
fn all_problems_have_file_line_key_and_expected_value() {
    let home = Home::new();
    home.write("crawlway.toml", WRONG);
    let variables = [
        ("CRAWLWAY_BROKER__EMBEDED__MAX_MESAGE", "1MiB"),
        ("CRAWLWAY_BROKER", "embedded"),
        ("CRAWLWAY_DATA_DIR", ""),
        ("CRAWLWAY_QUEUE__DEFAULTS__LEASE", "0s"),
        ("CRAWLWAY_log__level", "info"),
        ("CRAWLWAYS", "not ours"),
    ];
    insta::assert_snapshot!(home.run_with("config check", &variables).refused(2));
}

#[test]
fn a_number_out_of_range_is_quoted_as_written() {
    let home = Home::new();
    home.write("crawlway.toml", "[queue.defaults]\nprefetch = 99999999999999999999\n");
    let stderr = home.run("config check").refused(2);
    assert!(stderr.contains("found \"99999999999999999999\", expected a whole number from 1 to"), "{stderr}");
}

#[test]
fn problems_as_json() {
    let home = Home::new();
    home.write("crawlway.toml", "[broker]\nkidn = \"embedded\"\n");
    let ran = home.run("config check --json");
    assert_eq!((ran.code, ran.stderr.as_str()), (2, ""));
    let checked: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let problem = json!({
        "source": { "kind": "file", "path": "crawlway.toml", "line": 2 },
        "key": "broker.kidn",
        "problem": "unknown key; did you mean `broker.kind`?",
    });
    assert_eq!(checked, json!({ "ok": false, "problems": [problem], "roles": [] }));
}

#[test]
fn every_command_validates_the_settings_first() {
    let home = Home::new();
    home.write("crawlway.toml", "data_dri = \"x\"\n");
    for line in [
        "queues",
        "dead list",
        "config show",
        "crawl http://a.example/",
        "search x",
        "trail x",
        "replay index",
    ] {
        assert_eq!(
            home.run(line).refused(2),
            "error: crawlway.toml:1: `data_dri`: unknown key; did you mean `data_dir`?\n"
        );
    }
}

#[test]
fn a_file_that_is_no_toml_is_reported_with_its_line_and_without_its_content() {
    let home = Home::new();
    home.write("crawlway.toml", "data_dir = \"x\"\npassword = \"hunter2\nkind = 1\n");
    let stderr = home.run("config check").refused(2);
    assert!(stderr.contains("crawlway.toml:2: not valid TOML"), "{stderr}");
    assert!(!stderr.contains("hunter2"), "{stderr}");
}

#[test]
fn an_unreadable_file_is_reported_with_the_source_of_its_name() {
    let home = Home::new();
    fs::create_dir(home.path().join("folder.toml")).unwrap();
    home.write("binary.toml", "");
    fs::write(home.path().join("binary.toml"), b"\xff\xfe").unwrap();
    let missing = home.run("config check --config missing.toml").refused(2);
    assert!(missing.contains("`missing.toml`") && missing.contains("(named by --config)"), "{missing}");
    let folder = home.run_with("queues", &[("CRAWLWAY_CONFIG", "folder.toml")]).refused(2);
    assert!(folder.contains("`folder.toml`") && folder.contains("(named by CRAWLWAY_CONFIG)"), "{folder}");
    let binary = home.run("config check --config binary.toml").refused(2);
    assert!(binary.contains("`binary.toml`") && binary.contains("UTF-8"), "{binary}");
}

#[test]
fn secrets_are_not_printed_even_where_no_setting_holds_one() {
    let home = Home::new();
    home.write(
        "crawlway.toml",
        "data_dir = \"amqp://user:hunter2@host/dir\"\n[broker]\npassword = \"hunter2\"\n",
    );
    for line in ["config check", "config check --json"] {
        let ran = home.run(line);
        assert!(!format!("{}{}", ran.stdout, ran.stderr).contains("hunter2"));
    }
    home.write("crawlway.toml", "data_dir = \"amqp://user:hunter2@host/dir\"\n");
    for line in ["config show", "config show --json"] {
        let shown = home.run(line).ok();
        assert!(shown.contains("amqp://user:***@host/dir") && !shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn the_log_can_be_json() {
    let home = crate::sample::filled(crate::sample::three_minutes_ago());
    home.run("queues").ok();
    let ran = home.run_with("queues", &[("CRAWLWAY_LOG__FORMAT", "json"), ("CRAWLWAY_LOG__LEVEL", "info")]);
    let logged: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!((&logged["level"], &logged["fields"]["message"]), (&json!("INFO"), &json!("queue opened")));
    let ran = home.run_with("queues", &[("CRAWLWAY_LOG__LEVEL", "info")]);
    assert!(ran.stderr.contains("INFO") && ran.stderr.contains("queue opened"), "{}", ran.stderr);
}

#[test]
fn a_server_without_an_address_is_reported_with_its_setting() {
    let home = Home::new();
    for (settings, named) in [
        ("[broker]\nkind = \"rabbitmq\"", "`broker.rabbitmq.user` and `broker.rabbitmq.password`"),
        (
            "[broker]\nkind = \"rabbitmq\"\n[broker.rabbitmq]\nhost = \"\"\nuser = \"a\"\npassword = \"b\"",
            "set `broker.rabbitmq.url` or `broker.rabbitmq.host`",
        ),
        (
            "[brokers.events]\nkind = \"rabbitmq\"\n[search]\nbroker = \"events\"",
            "there are no user name and password; set `brokers.events.rabbitmq.user` and `brokers.events.rabbitmq.password`",
        ),
        ("[records]\nkind = \"postgresql\"", "`records.postgresql.url` is empty"),
        ("[seen]\nkind = \"redis\"", "`seen.kind` is \"redis\", but `redis.url` is empty"),
        ("[rate_limit]\nkind = \"redis\"", "`rate_limit.kind` is \"redis\", but `redis.url` is empty"),
        ("[inventory]\nstore = \"mongodb\"", "`inventory.mongodb.url` is empty"),
    ] {
        home.write("crawlway.toml", &format!("only_process = true\n{settings}\n"));
        for line in ["config check", "up"] {
            let stderr = home.run(line).refused(2);
            assert!(stderr.contains(named), "{line}: {stderr}");
        }
        let report: serde_json::Value =
            serde_json::from_str(&home.run("config check --json").stdout).unwrap();
        assert_eq!(
            (&report["ok"], report["problems"].as_array().unwrap().len()),
            (&json!(false), 1),
            "{report}"
        );
        assert!(!home.data().exists(), "a refusal changes nothing");
    }
}

#[test]
fn a_queue_on_a_broker_that_cannot_hold_it_or_does_not_exist_is_refused() {
    let home = Home::new();
    let events =
        "only_process = true\n[brokers.events]\nkind = \"rabbitmq\"\nrabbitmq.url = \"amqp://a:b@c\"\n";
    let long = "[queue.crawler_queue]\nlease = \"3d\"\n";
    for (settings, named) in [
        (
            format!("{events}[search]\nbroker = \"events\"\n{long}"),
            "`[brokers.events]`: queue `crawler_queue` asks for lease",
        ),
        (
            format!("{events}[search]\nbroker = \"evnts\"\n"),
            "crawlway.toml:6: `search.broker`: names `evnts`, but there is no `[brokers.evnts]`; there are `[broker]`, \
             `[brokers.events]`",
        ),
    ] {
        home.write("crawlway.toml", &settings);
        for line in ["config check", "up"] {
            let stderr = home.run(line).refused(2);
            assert!(stderr.contains(named), "{line}: {stderr}");
        }
        assert!(!home.data().exists(), "a refusal changes nothing");
    }
    // The embedded default broker holds the same queue.
    home.write("crawlway.toml", &format!("{events}[inventory]\nbroker = \"events\"\n{long}"));
    home.run("config check").ok();
}

#[test]
fn a_stage_that_runs_in_one_process_may_own_stores() {
    let home = Home::new();
    let broker = "[broker]\nkind = \"rabbitmq\"\n[broker.rabbitmq]\nuser = \"a\"\npassword = \"b\"\n";
    let inventory =
        "[inventory]\nstore = \"mongodb\"\n[inventory.mongodb]\nurl = \"mongodb://127.0.0.1:1\"\n";
    home.write("crawlway.toml", &format!("{broker}{inventory}"));
    let stderr = home.run("config check").refused(2);
    assert!(stderr.contains("`one_process_per_stage = true`"), "{stderr}");
    home.write("crawlway.toml", &format!("one_process_per_stage = true\n{broker}{inventory}"));
    let checked = home.run("config check").ok();
    for line in [
        "ok: ",
        "  gateway: any number of processes\n",
        "  search:crawl: one process, which owns the frontier, the trails, the seen URLs and the rate limiter\n",
        "  search:index: one process, which owns the trails and the search index\n",
        "  inventory:fetch: one process, which owns the trails and the rate limiter\n",
    ] {
        assert!(checked.contains(line), "{line}: {checked}");
    }
    let report: serde_json::Value = serde_json::from_str(&home.run("config check --json").ok()).unwrap();
    let gateway = json!({ "role": "gateway", "processes": "any", "owned": [] });
    assert_eq!(report["roles"][0], gateway, "{report}");
    assert_eq!(report["roles"][2]["processes"], "one", "{report}");
    let both = "one_process_per_stage = true\nonly_process = true\n";
    home.write("crawlway.toml", &format!("{both}{broker}{inventory}"));
    let stderr = home.run("config check").refused(2);
    assert!(stderr.contains("expected one of `only_process` and `one_process_per_stage`"), "{stderr}");
}

#[test]
fn read_only_commands_need_no_redis_and_no_mongodb() {
    let home = crate::sample::filled(crate::sample::three_minutes_ago());
    // No server listens there.
    home.write(
        "crawlway.toml",
        "only_process = true\n[seen]\nkind = \"redis\"\n[rate_limit]\nkind = \"redis\"\n[redis]\nurl = \"redis://127.0.0.1:1\"\n\
         [inventory]\nstore = \"mongodb\"\n[inventory.mongodb]\nurl = \"mongodb://127.0.0.1:1\"\n",
    );
    home.run("queues").ok();
    home.run("dead list").ok();
    std::fs::write(home.data().join("records.db"), b"").unwrap();
    home.run("queues").ok();
    assert!(home.run("trail https://a.example/").stdout.contains("has no trail"));
}

#[test]
fn old_keys_are_refused_with_their_new_names_and_migrated() {
    let home = Home::new();
    let old = "# polite\n[fetch]\ngap = \"2s\"\n\n[gate]\nback_off = \"1s\" # first\n";
    home.write("crawlway.toml", old);
    let refused = home.run("config check").refused(2);
    for expected in [
        "crawlway.toml:3: `fetch.gap`: renamed to `fetch.min_delay`",
        "`gate`: renamed to `rate_limit`",
        "config migrate",
    ] {
        assert!(refused.contains(expected), "{refused}");
    }
    let variable = home.run_with("config check", &[("CRAWLWAY_GATE__BACK_OFF", "1s")]).refused(2);
    assert!(variable.contains("renamed to `CRAWLWAY_RATE_LIMIT__BACKOFF_DELAY`"), "{variable}");
    assert!(home.run("config migrate --dry-run").ok().ends_with("3 keys would be renamed\n"));
    assert_eq!(home.read("crawlway.toml"), old, "a dry run changes nothing");
    let migrated = home.run("config migrate --json").json();
    assert_eq!(migrated["written"], true);
    assert_eq!(migrated["renamed"][0], json!({ "line": 3, "old": "fetch.gap", "new": "fetch.min_delay" }));
    assert_eq!(home.read("crawlway.toml.old"), old);
    let new = "# polite\n[fetch]\nmin_delay = \"2s\"\n\n[rate_limit]\nbackoff_delay = \"1s\" # first\n";
    assert_eq!(home.read("crawlway.toml"), new);
    home.run("config check").ok();
    assert!(home.run("config migrate").ok().contains("needs no change"));
    home.write("crawlway.toml", old);
    assert!(home.run("config migrate").refused(2).contains("`crawlway.toml.old` exists"));
    home.write("broken.toml", "[fetch\n");
    assert!(
        home.run("config migrate --config broken.toml").refused(2).contains("cannot migrate `broken.toml`")
    );
    assert!(home.run("config migrate --config nowhere.toml").refused(2).contains("nowhere.toml"));
}

#[test]
fn there_is_nothing_to_migrate_without_a_file() {
    assert!(Home::new().run("config migrate").refused(2).contains("--config"));
}
