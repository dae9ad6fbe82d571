//! Mistakes in topology files: each is told with its line and what is wrong, and nothing is built.

use bed::file::TestbedFile;
use std::path::Path;
use terms::Rate;

fn parse(text: &str) -> Result<TestbedFile, String> {
    TestbedFile::parse(Path::new("t.toml"), text).map_err(|mistake| mistake.to_string())
}

#[test]
fn the_example_is_the_seed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/seed.toml");
    let seed = TestbedFile::load(&path).unwrap().topology;
    let names: Vec<&str> = seed.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["swissvale", "yosemite", "maui", "glenwood"]);
    let rates: Vec<Rate> = seed.links.iter().map(|link| link.rate).collect();
    assert_eq!(rates, [100, 10, 100].map(Rate::from_mbps));
    assert_eq!(seed.address(0).unwrap().to_string(), "10.0.0.1");
    assert!(TestbedFile::load(&path).unwrap().keys, "each link gets a key");
    assert_eq!(seed.address(3).unwrap().to_string(), "10.0.2.2");
}

#[test]
fn mistakes_name_file_line_and_reason() {
    let head = "name = \"t\"\nauth = \"none\"\n";
    let pair = "node = [{ name = \"a\", kind = \"host\" }, { name = \"b\", kind = \"router\" }]\n";
    let link = |rest: &str| format!("{head}{pair}[[link]]\nbetween = [\"a\", \"b\"]\n{rest}\n");
    let table: &[(&str, String, &str)] = &[
        ("no name", "auth = \"none\"".into(), "t.toml:1: missing field `name`"),
        ("other auth", "name = \"t\"\nauth = \"keys\"".into(), "t.toml:2: auth = \"keys\" is not known"),
        ("no node", head.into(), "t.toml: there is no [[node]]"),
        ("kind", format!("{head}[[node]]\nname = \"a\"\nkind = \"switch\""), "t.toml:5: a node is a host or a router"),
        ("twice", format!("{head}{pair}").replace("\"b\"", "\"a\""), "t.toml:3: the node a is there twice"),
        ("bad name", "auth = \"none\"\nname = \"a b\"".into(), "t.toml:2: \"a b\" is no name"),
        ("one end", link("rate = \"1mbit\"").replace("[\"a\", \"b\"]", "[\"a\"]"), "t.toml:5: a link is between two"),
        (
            "nowhere",
            link("rate = \"1mbit\"").replace("[\"a\", \"b\"]", "[\"a\", \"c\"]"),
            "t.toml:5: there is no node \"c\"",
        ),
        (
            "itself",
            link("rate = \"1mbit\"").replace("[\"a\", \"b\"]", "[\"a\", \"a\"]"),
            "t.toml:5: a link from a to itself",
        ),
        ("no rate", link(""), "t.toml:4: missing field `rate`"),
        ("bad unit", link("rate = \"10 furlongs\""), "t.toml:6: \"furlongs\" is no unit of rate"),
        ("unknown key", link("rate = \"1mbit\"\ncolour = \"red\""), "t.toml:7: unknown field `colour`"),
        ("mtu", link("rate = \"1mbit\"\nmtu = 100"), "t.toml:7: an MTU is 576"),
        ("refresh", link("rate = \"1mbit\"\n[rsvp]\nrefresh = \"2\""), "t.toml:8: \"2\" has no unit"),
    ];
    for (case, text, expected) in table {
        let told = parse(text).expect_err(case);
        assert!(told.starts_with(expected), "{case}: {told}\n expected: {expected}");
    }
}
