//! `docs/configuration.md` is generated: names, types and texts from the source of the
//! configuration types, defaults from `latemux serve --print-config`.
//!
//! `make docs` writes the page. The test fails if it is stale.

use std::{
    collections::BTreeMap,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use syn::{Attribute, Expr, Field, Fields, Item, Lit, Meta, Type};

/// Files that declare configuration types. No two of them declare a type of the same name.
const SOURCES: [&str; 9] = [
    "crates/cli/src/config.rs",
    "crates/origin/src/config.rs",
    "crates/origin/src/config/cache_control.rs",
    "crates/origin/src/config/drm.rs",
    "crates/origin/src/config/http.rs",
    "crates/origin/src/config/read.rs",
    "crates/origin/src/config/urls.rs",
    "crates/storage/src/options.rs",
    "crates/cache/src/config.rs",
];

/// The type of the whole file in the first of [`SOURCES`]. The cache's type has the same name.
const ROOT: &str = "cli::Config";

const HEADER: &str = "\
# Configuration

`latemux serve --config FILE` reads a TOML file with these keys. Only `source` is needed, in the file or as
an argument. Flags override the file, and unknown keys are refused. `latemux serve --print-config` prints the
resulting configuration. [`examples/latemux.toml`](../examples/latemux.toml) is a file with every default.

Durations are written as `500ms`, `4s`, `1.5s`, `2m`, `1h` or `1d`. Sizes are written in bytes or as
`64KiB`, `256MiB`, `1GiB` or `1TiB`. Both are TOML strings, in quotes.

<!-- Generated from the types of the configuration. `make docs` updates this page. -->
";

#[test]
fn the_configuration_page_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = page(&root);
    let path = root.join("docs/configuration.md");
    if std::env::var_os("LATEMUX_UPDATE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let current = fs::read_to_string(&path).unwrap_or_default();
    assert!(current == page, "{} is stale: `make docs` updates it", path.display());
}

/// One key of the file, as its field declares it.
struct Key {
    name: String,
    /// First version that has the key.
    since: String,
    doc: String,
    kind: Kind,
}

enum Kind {
    /// A value, with the name of its type for the reader.
    Value(&'static str),
    /// A section that another type declares.
    Section(String),
    /// Any number of sections that another type declares.
    Sections(String),
    /// Keys of another type, at the same level.
    Flattened(String),
}

fn page(root: &Path) -> String {
    let types: BTreeMap<String, Vec<Key>> =
        SOURCES.iter().flat_map(|path| declared(path, &root.join(path))).collect();
    let printed =
        Command::new(env!("CARGO_BIN_EXE_latemux")).args(["serve", "--print-config"]).output().unwrap();
    let defaults: toml::Table = toml::from_str(std::str::from_utf8(&printed.stdout).unwrap()).unwrap();
    let mut page = HEADER.to_owned();
    section(&mut page, &types, ROOT, "", &toml::Value::Table(defaults));
    page
}

/// Writes the keys of a type as a table, then each of its sections.
fn section(
    page: &mut String,
    types: &BTreeMap<String, Vec<Key>>,
    name: &str,
    path: &str,
    defaults: &toml::Value,
) {
    let mut keys: Vec<&Key> = Vec::new();
    for key in &types[name] {
        match &key.kind {
            Kind::Flattened(inner) => keys.extend(&types[inner]),
            _ => keys.push(key),
        }
    }
    let rows: Vec<_> = keys.iter().filter(|key| matches!(key.kind, Kind::Value(_))).collect();
    if !rows.is_empty() {
        page.push_str("\n| Key | Type | Default | Since | Meaning |\n|---|---|---|---|---|\n");
    }
    for key in rows {
        let Kind::Value(kind) = key.kind else { continue };
        let default = match defaults.get(&key.name) {
            Some(toml::Value::String(text)) if text.is_empty() => "empty".to_owned(),
            Some(value) => format!("`{value}`"),
            None => "none".to_owned(),
        };
        let Key { name, since, doc, .. } = key;
        writeln!(page, "| `{name}` | {kind} | {default} | {since} | {doc} |").unwrap();
    }
    let nothing = toml::Value::Table(toml::Table::new());
    for key in keys {
        let path = if path.is_empty() { key.name.clone() } else { format!("{path}.{}", key.name) };
        let (title, inner, defaults) = match &key.kind {
            Kind::Section(inner) => (format!("[{path}]"), inner, defaults.get(&key.name).unwrap_or(&nothing)),
            Kind::Sections(inner) => (format!("[[{path}]]"), inner, &nothing),
            Kind::Value(_) | Kind::Flattened(_) => continue,
        };
        write!(page, "\n## `{title}`\n{}\n", key.doc).unwrap();
        section(page, types, inner, &path, defaults);
    }
}

/// Returns every configuration type of a source file with its keys.
fn declared(source: &str, path: &PathBuf) -> Vec<(String, Vec<Key>)> {
    let file = syn::parse_file(&fs::read_to_string(path).unwrap()).unwrap();
    let structs = file.items.into_iter().filter_map(|item| match item {
        Item::Struct(item) if item.attrs.iter().any(|attr| attr.path().is_ident("serde")) => Some(item),
        _ => None,
    });
    structs
        .map(|item| {
            let Fields::Named(fields) = item.fields else { panic!("{}: fields without names", item.ident) };
            let keys = fields.named.iter().filter_map(key).collect();
            (qualified(source, &item.ident.to_string()), keys)
        })
        .collect()
}

/// Returns a type's name, with its crate if two crates use the name.
fn qualified(source: &str, name: &str) -> String {
    match name {
        "Config" => format!("{}::Config", source.split('/').nth(1).unwrap()),
        name => name.to_owned(),
    }
}

/// Returns the key of a field, or `None` if no file can set the field.
fn key(field: &Field) -> Option<Key> {
    let name = field.ident.as_ref().unwrap().to_string();
    let mut with = None;
    let mut flattened = false;
    let mut skipped = false;
    for attr in field.attrs.iter().filter(|attr| attr.path().is_ident("serde")) {
        attr.parse_nested_meta(|meta| {
            flattened |= meta.path.is_ident("flatten");
            skipped |= meta.path.is_ident("skip");
            if meta.path.is_ident("with") {
                with = Some(meta.value()?.parse::<syn::LitStr>()?.value());
            }
            Ok(())
        })
        .unwrap();
    }
    if skipped {
        return None;
    }
    let kind = match with.as_deref() {
        Some("ByteSize") => Kind::Value("size"),
        Some("TimeSpan") => Kind::Value("duration"),
        Some("header") => Kind::Value("text"),
        Some("text") if type_name(&field.ty) == "Reach" => Kind::Value("text or size"),
        Some("text") => Kind::Value("text"),
        Some(remote) => Kind::Section(remote.to_owned()),
        None if flattened => Kind::Flattened(type_name(&field.ty)),
        None => match type_name(&field.ty).as_str() {
            "bool" => Kind::Value("true or false"),
            "usize" | "u32" => Kind::Value("number"),
            "ListenAddress" => Kind::Value("address:port or unix:path"),
            "StreamCount" => Kind::Value("number or `\"auto\"`"),
            "ListenAddresses" => Kind::Value("address:port, or a list"),
            "PathBuf" => Kind::Value("path"),
            "String" => Kind::Value("text"),
            "BTreeMap" => Kind::Value("table of texts"),
            "Vec" => match element_name(&field.ty).as_str() {
                "String" | "Network" => Kind::Value("list of texts"),
                section => Kind::Sections(section.to_owned()),
            },
            section => Kind::Section(section.to_owned()),
        },
    };
    let doc = doc(&field.attrs);
    assert!(doc.ends_with('.'), "{name}: no sentence says what it does");
    // A key that is younger than the first version ends its comment with the version.
    let (doc, since) = match doc.rsplit_once(" Since ") {
        Some((doc, since)) => (doc.to_owned(), since.trim_end_matches('.').to_owned()),
        None => (doc, "0.1.0".to_owned()),
    };
    Some(Key { name, since, doc, kind })
}

/// Returns the last segment of a type's path. For an `Option`, it is that of the inner type.
fn type_name(ty: &Type) -> String {
    let Type::Path(path) = ty else { panic!("a type without a path") };
    let segments = &path.path.segments;
    let last = segments.last().unwrap();
    match &last.arguments {
        syn::PathArguments::AngleBracketed(inner) if last.ident == "Option" => match inner.args.first() {
            Some(syn::GenericArgument::Type(inner)) => type_name(inner),
            _ => panic!("an Option of no type"),
        },
        _ => {
            let of_crate = segments.first().unwrap().ident.to_string();
            qualified(
                &format!("crates/{}/", of_crate.trim_start_matches("latemux_")),
                &last.ident.to_string(),
            )
        }
    }
}

/// Returns the name of a list's type of elements.
fn element_name(ty: &Type) -> String {
    let Type::Path(path) = ty else { panic!("a type without a path") };
    let syn::PathArguments::AngleBracketed(inner) = &path.path.segments.last().unwrap().arguments else {
        panic!("a list of no type")
    };
    match inner.args.first() {
        Some(syn::GenericArgument::Type(inner)) => type_name(inner),
        _ => panic!("a list of no type"),
    }
}

/// Returns the doc comment as one line.
fn doc(attrs: &[Attribute]) -> String {
    let lines = attrs.iter().filter_map(|attr| match &attr.meta {
        Meta::NameValue(meta) if meta.path.is_ident("doc") => match &meta.value {
            Expr::Lit(text) => match &text.lit {
                Lit::Str(text) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    lines.collect::<Vec<_>>().join(" ")
}
