//! `[[tenant]]` entries.

use super::{
    kind::{Kind, Refusal, text},
    value::{Node, Value, quote},
};
use crate::tenant::{
    glob::Glob,
    rule::{TenantMatch, TenantRule},
};

/// Longest tenant name, in bytes; it becomes a metric label.
const MAX_NAME_BYTES: usize = 128;

const CONDITIONS: &str = "`cgroup`, `unit`, `container_id`, `pod_uid`, `claims.exe` or `claims.uid`";

/// The list of `[[tenant]]` entries; in a flag or variable `NAME=CONDITION:VALUE,CONDITION:VALUE`, entries
/// separated by semicolons.
pub(super) struct Tenants;

impl Kind for Tenants {
    type Target = Vec<TenantRule>;

    fn expected(&self) -> String {
        format!("a list of tenants, each a `name` and a `match` with any of {CONDITIONS}")
    }

    fn read(&self, given: &Node) -> Result<Vec<TenantRule>, Vec<Refusal>> {
        let entries = match &given.value {
            Value::List(entries) => entries.clone(),
            Value::Word(word) => parse_words(word)?,
            _ => return Err(Refusal::whole("write a `[[tenant]]` section for each tenant")),
        };
        let mut rules = Vec::with_capacity(entries.len());
        let mut refused = Vec::new();
        for (index, entry) in entries.iter().enumerate() {
            let part = format!("[{index}]");
            match read_entry(entry) {
                Ok(rule) => rules.push(rule),
                Err(refusals) => refused.extend(
                    refusals.into_iter().map(|it| it.within(&part, entry, "a table of `name` and `match`")),
                ),
            }
        }
        if refused.is_empty() { Ok(rules) } else { Err(refused) }
    }

    fn render(&self, value: &Vec<TenantRule>) -> Option<String> {
        let entries: Vec<String> = value.iter().map(render_entry).collect();
        Some(format!("[{}]", entries.join(", ")))
    }

    fn separator(&self) -> Option<char> {
        Some(';')
    }
}

/// Brings `NAME=CONDITION:VALUE,…;…` into the shape of the TOML form.
fn parse_words(word: &str) -> Result<Vec<Node>, Vec<Refusal>> {
    word.split(';').map(str::trim).filter(|entry| !entry.is_empty()).map(parse_word).collect()
}

fn parse_word(entry: &str) -> Result<Node, Vec<Refusal>> {
    let form = || Refusal::whole("write `NAME=CONDITION:VALUE`, as in `training=unit:train-*.service`");
    let (name, conditions) = entry.split_once('=').ok_or_else(form)?;
    let mut matches = Vec::new();
    let mut claims = Vec::new();
    for condition in conditions.split(',') {
        let (selector, value) = condition.split_once(':').ok_or_else(form)?;
        match selector.trim().strip_prefix("claims.") {
            Some(claim) => claims.push((claim.to_owned(), Node::word(value))),
            None => matches.push((selector.trim().to_owned(), Node::word(value))),
        }
    }
    if !claims.is_empty() {
        matches.push(("claims".to_owned(), table(claims)));
    }
    Ok(table(vec![("name".to_owned(), Node::word(name.trim())), ("match".to_owned(), table(matches))]))
}

fn table(entries: Vec<(String, Node)>) -> Node {
    Node { value: Value::Table(entries), position: None }
}

fn read_entry(entry: &Node) -> Result<TenantRule, Vec<Refusal>> {
    let mut name = None;
    let mut matches = None;
    let mut refused = Vec::new();
    for (key, node) in table_entries(entry)? {
        match key.as_str() {
            "name" => collect(read_name(node), ".name", node, "a tenant name", &mut name, &mut refused),
            "match" => collect(read_match(node), ".match", node, CONDITIONS, &mut matches, &mut refused),
            other => refused.extend(unknown(other, node, "`name` and `match`")),
        }
    }
    if refused.is_empty() {
        match (name, matches) {
            (Some(name), Some(matches)) => return Ok(TenantRule { name, matches }),
            (None, _) => refused.extend(Refusal::whole("add `name = \"…\"`")),
            (_, None) => refused.extend(Refusal::whole("add `match = { cgroup = \"/…\" }`")),
        }
    }
    Err(refused)
}

fn read_name(node: &Node) -> Result<String, Vec<Refusal>> {
    let name = text(node)?;
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return Err(Refusal::whole(format!("use 1 to {MAX_NAME_BYTES} bytes")));
    }
    if name.chars().any(char::is_control) {
        return Err(Refusal::whole("leave out control characters"));
    }
    if name == "host" {
        return Err(Refusal::whole("choose another name: `host` stands for the root cgroup"));
    }
    Ok(name.to_owned())
}

fn read_match(node: &Node) -> Result<TenantMatch, Vec<Refusal>> {
    let mut read = TenantMatch::default();
    let mut refused = Vec::new();
    for (key, node) in table_entries(node)? {
        let part = format!(".{key}");
        let expected_glob = "a pattern of names, `*`, `?` and `**`";
        match key.as_str() {
            "cgroup" => collect(read_path(node), &part, node, expected_glob, &mut read.cgroup, &mut refused),
            "unit" => collect(read_unit(node), &part, node, expected_glob, &mut read.unit, &mut refused),
            "container_id" => {
                let expected = "the first 8 to 64 digits of a container id";
                collect(read_container_id(node), &part, node, expected, &mut read.container_id, &mut refused);
            }
            "pod_uid" => {
                let expected = "a pod UID: 8-4-4-4-12 hexadecimal digits, or 32 for a static pod";
                collect(read_pod_uid(node), &part, node, expected, &mut read.pod_uid, &mut refused);
            }
            "claims" => read_claims(node, &part, &mut read, &mut refused),
            other => refused.extend(unknown(other, node, CONDITIONS)),
        }
    }
    if !refused.is_empty() {
        return Err(refused);
    }
    if read.is_empty() {
        return Err(Refusal::whole("add at least one condition"));
    }
    Ok(read)
}

fn read_claims(claims: &Node, part: &str, read: &mut TenantMatch, refused: &mut Vec<Refusal>) {
    let entries = match table_entries(claims) {
        Ok(entries) => entries,
        Err(refusals) => {
            refused
                .extend(refusals.into_iter().map(|it| it.within(part, claims, "a table of `exe` and `uid`")));
            return;
        }
    };
    for (key, node) in entries {
        let part = format!("{part}.{key}");
        match key.as_str() {
            "exe" => {
                let expected = "a pattern over an absolute path";
                collect(read_path(node), &part, node, expected, &mut read.claims.exe, refused);
            }
            "uid" => {
                collect(read_uid(node), &part, node, "a numeric user id", &mut read.claims.uid, refused);
            }
            other => {
                refused.extend(
                    unknown(other, node, "`exe` and `uid`")
                        .into_iter()
                        .map(|it| Refusal { part: format!(".claims{}", it.part), ..it }),
                );
            }
        }
    }
}

fn read_path(node: &Node) -> Result<Glob, Vec<Refusal>> {
    let pattern = text(node)?;
    if !pattern.starts_with('/') {
        return Err(Refusal::whole("begin it with `/`"));
    }
    if pattern == "/" {
        return Err(Refusal::whole("name something below it: the root is always the tenant `host`"));
    }
    if pattern.ends_with('/') {
        return Err(Refusal::whole("leave out the last `/`; what is below matches too"));
    }
    Glob::new(pattern).map_err(Refusal::whole)
}

fn read_unit(node: &Node) -> Result<Glob, Vec<Refusal>> {
    let pattern = text(node)?;
    let segments: Vec<&str> = pattern.split('/').collect();
    if segments.len() > 2 || segments.contains(&"") {
        return Err(Refusal::whole(
            "write a unit's name, as in `train-*.service` or `user@1000.service/train.service`",
        ));
    }
    Glob::new(pattern).map_err(Refusal::whole)
}

fn read_container_id(node: &Node) -> Result<String, Vec<Refusal>> {
    let id = text(node)?;
    if !(8..=64).contains(&id.len()) || !id.bytes().all(is_lower_hex) {
        return Err(Refusal::whole("write hexadecimal digits in lower case, without the runtime's prefix"));
    }
    Ok(id.to_owned())
}

fn read_pod_uid(node: &Node) -> Result<String, Vec<Refusal>> {
    let uid = text(node)?;
    let plain = uid.len() == 32 && uid.bytes().all(is_lower_hex);
    let lengths: Vec<usize> = uid.split('-').map(str::len).collect();
    let dashed = lengths == [8, 4, 4, 4, 12] && uid.bytes().all(|byte| byte == b'-' || is_lower_hex(byte));
    if plain || dashed {
        Ok(uid.to_owned())
    } else {
        Err(Refusal::whole("write it as `kubectl get pod -o jsonpath={.metadata.uid}` prints it"))
    }
}

fn read_uid(node: &Node) -> Result<u32, Vec<Refusal>> {
    let parsed = match &node.value {
        Value::Integer(number) => u32::try_from(*number).ok(),
        Value::Word(word) => word.parse().ok(),
        _ => None,
    };
    parsed.ok_or_else(|| Refusal::whole("write a number from 0 to 4294967295, without quotes"))
}

fn table_entries(node: &Node) -> Result<&[(String, Node)], Vec<Refusal>> {
    match &node.value {
        Value::Table(entries) => Ok(entries),
        _ => Err(Refusal::whole("write a table: `{ key = \"value\" }`")),
    }
}

/// Keeps what was read, or why it was refused.
fn collect<T>(
    read: Result<T, Vec<Refusal>>,
    part: &str,
    node: &Node,
    expected: &str,
    into: &mut Option<T>,
    refused: &mut Vec<Refusal>,
) {
    match read {
        Ok(value) => *into = Some(value),
        Err(refusals) => refused.extend(refusals.into_iter().map(|it| it.within(part, node, expected))),
    }
}

fn unknown(key: &str, node: &Node, known: &str) -> Vec<Refusal> {
    let refusals = Refusal::whole("correct the name or remove it");
    let expected = format!("only {known} here");
    refusals.into_iter().map(|it| it.within(&format!(".{key}"), node, &expected)).collect()
}

fn is_lower_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)
}

fn render_entry(rule: &TenantRule) -> String {
    let TenantMatch { cgroup, unit, container_id, pod_uid, claims } = &rule.matches;
    let mut conditions: Vec<String> = [
        ("cgroup", cgroup.as_ref().map(Glob::as_str)),
        ("unit", unit.as_ref().map(Glob::as_str)),
        ("container_id", container_id.as_deref()),
        ("pod_uid", pod_uid.as_deref()),
        ("claims.exe", claims.exe.as_ref().map(Glob::as_str)),
    ]
    .into_iter()
    .filter_map(|(key, value)| value.map(|value| format!("{key} = {}", quote(value))))
    .collect();
    conditions.extend(claims.uid.map(|uid| format!("claims.uid = {uid}")));
    format!("{{ name = {}, match = {{ {} }} }}", quote(&rule.name), conditions.join(", "))
}
